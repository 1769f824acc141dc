"""``backup DIR`` and ``restore DIR``: everything that was learned, copied while it runs, and made again from the copy."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gateway.cli.output import Progress, json_option, plain_errors, print_json
from gateway.settings import load_settings


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@json_option
@click.pass_obj
@plain_errors
def backup(arguments: dict[str, str | None], directory: Path, as_json: bool) -> None:
    """Copy the log and the keys into a new DIRECTORY, consistently, while everything runs.

    The stores follow from the log and are made again by `restore`.
    """
    from gateway.backup import take
    from gateway.brain import utc_now

    manifest = take(load_settings(**arguments), directory, utc_now())
    if as_json:
        print_json({"directory": str(directory), **manifest.model_dump(mode="json")})
        return
    size = sum(one.bytes for one in manifest.files.values())
    click.echo(f"{manifest.records} records, {size / 1e6:.1f} MB, in {directory}: {', '.join(manifest.files)}")
    click.echo("hint: keys are in it as hashes, events as they came: keep it as safe as the data folder", err=True)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@json_option
@click.pass_obj
@plain_errors
def restore(arguments: dict[str, str | None], directory: Path, as_json: bool) -> None:
    """Make a brain of the backup in DIRECTORY, in a data folder that has none."""
    from gateway.backup import restore as restored_from

    settings = load_settings(**arguments)
    progress = Progress()
    done = restored_from(settings, directory, lambda count: progress.show(f"{count} records folded"))
    progress.clear()
    if as_json:
        plain = {
            "manifest": done.manifest.model_dump(mode="json"),
            "records": done.records,
            "fingerprint": asdict(done.fingerprint),
        }
        print_json({"data_dir": str(settings.data_dir), **plain})
        return
    click.echo(f"restored {settings.data_dir} as of {done.manifest.taken}: {done.records} records folded")
    click.echo(f"fingerprint {done.fingerprint.sha256}")
