"""`ulc report`: the results of a run as an HTML page."""

from pathlib import Path
from typing import Annotated

import typer

from ulc.cli.options import Review
from ulc.cli.screen import cell, say


def report(
    run: Annotated[Path, typer.Argument(help="A finished run folder.")],
    out: Annotated[
        Path | None, typer.Option(help="The page's file. Default: report.html in the run folder.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=0, help="How many suspicious labels to show; labels.csv holds all.")
    ] = 1000,
    review: Review = None,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Show the page in the browser.")
    ] = False,
) -> None:
    """Write one HTML file with the results and a gallery in which you decide about labels.

    The page saves your decisions as decisions.csv for `ulc apply`. The file needs no internet
    connection and stays below 10 MB.
    """
    from ulc.report.findings import open_run
    from ulc.report.page import make_report
    from ulc.storage.files import check_output_file, write_whole

    folder = open_run(run)
    target = out or folder.path / "report.html"
    check_output_file("--out", target, endings=(".html", ".htm"))
    page = make_report(folder, limit, review)
    content = page.html.encode()
    write_whole(target, content)
    say(
        f"{cell(target)}: {page.listed} of {page.suspects} "
        f"{'suspicious labels' if review is None else 'labels with the lowest scores'}, "
        f"{len(content) / 1e6:.1f} MB"
    )
    if open_page:
        typer.launch(target.absolute().as_uri())
