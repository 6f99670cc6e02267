"""A slice of DivideMix beside a re-creation of how its public script works.

The re-creation augments image by image with PIL in DataLoader workers (vectors with NumPy), makes
new loaders in each epoch, runs one forward pass for each view and network, keeps the default memory
format and fits scikit-learn's mixture. Its loss is that of DivideMix. Both sides take the same
number of steps on the same split (see slices.py), and judge and test the same number of examples.
"""

import argparse
import sys
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.mixture import GaussianMixture
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.augment import normalise, weak_pil
from benchmarks.slices import Case, Slice, count_rows, load_case, make_cases, record_calls
from benchmarks.timing import (
    Repeats,
    add_data_options,
    check_bound,
    new_parser,
    parse_options,
    report_result,
    time_in_turns,
)
from ulc.data.training import TensorData

FASTER = {"PreAct ResNet-18": 1.0, "small network": 1.5, "MLP": 3.0}


def main(argv: list[str]) -> None:
    parser = new_parser(__doc__)
    add_data_options(parser)
    parser.set_defaults(repeats=5)
    parser.add_argument("--networks", nargs="+", default=list(FASTER))
    parser.add_argument("--examples", type=int, default=4096, help="of small network and MLP")
    parser.add_argument("--resnet-batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    options = parse_options(parser, argv)
    chosen = make_cases(options.examples, options.resnet_batch)
    rows, bounds = [], []
    for case in chosen:
        if case.title in options.networks:
            row, ratio = measure_script(case, options)
            rows.append(row)
            title = f"epoch of DivideMix: public script's way ÷ ours, {case.title}"
            bounds.append(check_bound(title, ratio, "≥", FASTER[case.title]))
    report_result("peer", options, rows, bounds)


def measure_script(case: Case, options: argparse.Namespace) -> tuple[dict[str, Any], Repeats]:
    """Time our slice and the script in turns; row and ratio."""
    data = load_case(case, options)
    ours = Slice.of("dividemix", case, data)
    calls = record_calls(ours)
    theirs = Script(case, data, ours, options.workers)
    timed = time_in_turns({"theirs": theirs.run, "ours": ours.run}, options.repeats)
    ratio = timed["theirs"].over(timed["ours"])
    row = {
        "network": case.title,
        "evaluated": case.examples,
        "batch_size": case.batch_size,
        **count_rows(calls),
        "seconds": timed["ours"].median,
        "peer_seconds": timed["theirs"].median,
        **ratio.columns("ratio"),
    }
    return row, ratio


class Samples(Dataset[Any]):
    """A data set that augments its examples one by one, with `views` views of each."""

    def __init__(self, data: TensorData, index: Tensor, views: int, *, augment: bool) -> None:
        stored = data.stored[index]
        self.image = stored.ndim == 4
        self.inputs = (stored.permute(0, 2, 3, 1) if self.image else stored).numpy()
        self.given = data.given[index].numpy()
        self.views = views
        self.augment = augment
        self.mean = np.float32(data.preprocessing.mean)
        self.std = np.float32(data.preprocessing.std)

    def __len__(self) -> int:
        return len(self.given)

    def __getitem__(self, place: int) -> tuple[Any, ...]:
        return (*[self.view(place) for _ in range(self.views)], int(self.given[place]), place)

    def view(self, place: int) -> Tensor:
        values, rng = self.inputs[place], np.random.default_rng()
        if not self.image:
            noise = rng.standard_normal(values.shape, dtype=np.float32) if self.augment else 0
            return torch.from_numpy(values + np.float32(0.1) * noise)
        return normalise(weak_pil(values, rng) if self.augment else values, self.mean, self.std)


class Script:
    """One epoch after warm-up, as the public script does it."""

    def __init__(self, case: Case, data: TensorData, ours: Slice, workers: int) -> None:
        self.case, self.data, self.workers = case, data, workers
        self.networks = [plain_copy(each.backbone, each.head) for each in ours.algorithm.networks()]
        self.optimisers = [
            torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
            for net in self.networks
        ]
        trusted, self.tested = ours.halves
        self.known, self.unknown = (side.nonzero().squeeze(1) for side in (trusted, ~trusted))

    def loader(self, index: Tensor, views: int, *, train: bool) -> DataLoader[Any]:
        size = self.case.batch_size if train else 5 * self.case.batch_size
        samples = Samples(self.data, index, views, augment=train)
        return DataLoader(samples, batch_size=size, shuffle=train, num_workers=self.workers)

    def run(self) -> None:
        clean = [self.clean_probability(net) for net in self.networks]
        for side in (0, 1):
            self.train(side, clean[1 - side])
        for loader in (self.loader(torch.arange(len(self.data)), 1, train=False), self.test()):
            with torch.no_grad():
                for inputs, _, _ in loader:
                    sum(net.eval()(inputs) for net in self.networks)

    def test(self) -> DataLoader[Any]:
        return self.loader(torch.arange(len(self.tested)), 1, train=False)

    def clean_probability(self, net: nn.Module) -> Tensor:
        """Fit one mixture to the losses of all examples."""
        losses = torch.zeros(len(self.data))
        net.eval()
        with torch.no_grad():
            for inputs, given, index in self.loader(torch.arange(len(self.data)), 1, train=False):
                losses[index] = F.cross_entropy(net(inputs), given, reduction="none")
        losses = ((losses - losses.min()) / (losses.max() - losses.min()))[:, None]
        mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4).fit(losses.numpy())
        posterior = mixture.predict_proba(losses.numpy())
        return torch.from_numpy(posterior[:, mixture.means_.argmin()]).float()

    def train(self, side: int, clean: Tensor) -> None:
        net, peer, optimiser = self.networks[side], self.networks[1 - side], self.optimisers[side]
        net.train()
        peer.eval()
        doubtful = self.loader(self.unknown, 2, train=True)
        unlabelled = iter(doubtful)
        for first, second, given, index in self.loader(self.known, 2, train=True):
            try:
                third, fourth, _, _ = next(unlabelled)
            except StopIteration:
                unlabelled = iter(doubtful)
                third, fourth, _, _ = next(unlabelled)
            trust = clean[self.known[index]][:, None]
            views = (first, second, third, fourth)
            loss = self.loss(net, peer, views, given, trust)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            loss.item()  # the script prints it

    def loss(
        self,
        net: nn.Module,
        peer: nn.Module,
        views: tuple[Tensor, ...],
        given: Tensor,
        trust: Tensor,
    ) -> Tensor:
        """Guess, refine and sharpen labels, apply mixup, return the loss."""
        first, second, third, fourth = views
        classes = self.data.num_classes
        with torch.no_grad():
            guesses = [each(view).softmax(1) for each in (net, peer) for view in (third, fourth)]
            guessed = sharp(sum(guesses) / 4)  # type: ignore[arg-type]
            own = (net(first).softmax(1) + net(second).softmax(1)) / 2
            refined = sharp(trust * F.one_hot(given, classes).float() + (1 - trust) * own)
        share = np.random.beta(4, 4)  # noqa: NPY002 (as the script does)
        share = max(share, 1 - share)
        inputs = torch.cat(views)
        target = torch.cat([refined, refined, guessed, guessed])
        partner = torch.randperm(len(inputs))
        logits = net(share * inputs + (1 - share) * inputs[partner])
        target = share * target + (1 - share) * target[partner]
        count = 2 * len(given)
        fit = -(logits[:count].log_softmax(1) * target[:count]).sum(1).mean()
        guess = (logits[count:].softmax(1) - target[count:]).square().mean()
        mean = logits.softmax(1).mean(0)
        prior = torch.full((classes,), 1 / classes)
        return fit + 25 * guess + (prior * (prior / mean).log()).sum()


def sharp(probability: Tensor) -> Tensor:
    raised = probability**2
    return raised / raised.sum(1, keepdim=True)


def plain_copy(backbone: nn.Module, head: nn.Linear) -> nn.Module:
    """Copy the layers, in the default memory format."""
    import copy

    whole = nn.Sequential(copy.deepcopy(backbone), copy.deepcopy(head))
    return whole.to(memory_format=torch.contiguous_format)


if __name__ == "__main__":
    main(sys.argv[1:])
