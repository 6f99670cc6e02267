"""`ulc embed`: features of images from a frozen network."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ulc.cli.options import Device, Json, Quiet
from ulc.cli.screen import cell, console, say

if TYPE_CHECKING:
    from ulc.data.sources.source import Source
    from ulc.embedding.embed import Embedded, Embedder


def embed(
    data: Annotated[str, typer.Argument(help="Images, as for `ulc train`.")],
    out: Annotated[Path, typer.Option(help="FEATURES.npz, for `ulc train FEATURES.npz`.")],
    backbone: Annotated[
        str,
        typer.Option(help="efficientnet-lite0, timm:NAME, torchvision:NAME or your module:Class."),
    ] = "efficientnet-lite0",
    size: Annotated[
        int | None, typer.Option(min=1, help="Pixels a side. Default: the backbone's own.")
    ] = None,
    pca: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Principal components to keep; 0: all features, without PCA. Default: 256 if "
            "there are more features and enough images.",
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Small is fast on a CPU, large on a GPU.")
    ] = 32,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Processes that compute features. Default: ULC_EMBED_PROCESSES, else 1."
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder for computed features. Default: `embedded` beside --out."),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compute features of images with a frozen network; an epoch on them takes seconds.

    Features are cached: a stopped command resumes, and no image is computed twice.
    """
    from ulc.cli import parse
    from ulc.data.sources import load_source
    from ulc.embedding.backbones import load_backbone
    from ulc.embedding.embed import Embedder, check_images, find_cache
    from ulc.embedding.pool import count_processes
    from ulc.storage.files import check_output_file
    from ulc.training.device import choose_device

    spec = parse.data(data)
    inputs = {"the images": Path(spec.path)} if spec.path else {}
    check_output_file("--out", out, endings=[".npz"], inputs=inputs)
    source = load_source(spec)
    check_images(source)
    used = load_backbone(backbone, size=size)
    root = cache or out.parent / "embedded"
    count = processes or count_processes()
    embedder = Embedder(used, root, choose_device(device), batch_size, count)
    done = embed_images(source, embedder, pca, show=not quiet)
    done.write(out)
    content = {
        "file": str(out),
        "backbone": backbone,
        "size": embedder.backbone.loaded.size,
        "images": len(done.arrays["X"]),
        "test_images": len(done.arrays.get("X_test", ())),
        "pooled": embedder.backbone.width,
        "features": done.arrays["X"].shape[1],
        "explained": done.projection.explained,
        "cache": str(find_cache(used, root).folder),
    }
    if as_json:
        print(json.dumps(content))
    elif not quiet:
        say(
            f"{cell(out)}: {content['images']} + {content['test_images']} images as "
            f"{content['features']} features each ({100 * done.projection.explained:.1f} % of the "
            f"variance of {backbone}'s {content['pooled']})"
        )


def embed_images(
    source: "Source", embedder: "Embedder", pca: int | None, *, show: bool
) -> "Embedded":
    """Compute the features; show: whether a progress bar is shown."""
    from ulc.embedding.embed import embed

    if not show:
        return embed(source, embedder, pca=pca)
    from ulc.cli.progress import CountBar

    with CountBar(console(error=True), embedder.backbone.name) as bar:
        return embed(source, embedder, pca=pca, on_progress=bar)
