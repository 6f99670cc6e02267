"""How torch sees the pretended device outside of its context: as none."""


class NoDevices:
    """What torch asks about the device; there is none of its kind for the rest of the process.

    So torch's own functions, such as `torch.random.fork_rng`, leave it alone.
    """

    def is_available(self) -> bool:
        """Whether there is such a device."""
        return False

    def is_initialized(self) -> bool:
        """Whether it was started."""
        return True

    def device_count(self) -> int:
        """Number of devices."""
        return 0

    def current_device(self) -> int:
        """Number of the device in use."""
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Seed nothing: its random numbers are those of the CPU."""
