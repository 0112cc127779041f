"""``dwindle studio MODEL...``: a page on this machine on which one's own models write about a text,
step by step."""

from typing import Annotated

import typer


def studio(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Run folders, saved models, names on the hub.",
            show_default=False,
        ),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8001,
) -> None:
    """Serve a page where you paste a text, pick rules, layers and decoding, and watch outputs side
    by side.

    It shows what each output uses, repeats and leaves out while it is being written. Only this
    machine can reach the page, and only by the link that is printed. It works with every model that
    reads text; stop it with Ctrl-C.
    """
    from dwindle.models.place import place

    for name in models:  # report wrong names before torch is imported
        place(name)
    try:
        from dwindle.generation.interactive import Author
        from dwindle.studio import pages
        from dwindle.web import security, server
    except ModuleNotFoundError as error:
        raise ValueError(
            f"the studio needs {error.name}: type pip install 'dwindle[studio]'"
        ) from None
    listening = server.bind("127.0.0.1", port)  # before the models: they take a while
    with listening:
        authors = []
        for name in models:
            typer.echo(f"Opening {name}", err=True)
            authors.append(Author(name))
        token, taken = security.new_token(), listening.getsockname()[1]
        application = pages.app(authors, token, taken)
        typer.echo(f"Open http://127.0.0.1:{taken}/{token}/ (stop with Ctrl-C).")
        server.answer(application, listening)
