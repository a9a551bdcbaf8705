"""``python -m bepo.envs.alfworld.write_games --games 1000 FOLDER``: write generated games as ALFWorld's own files."""

from __future__ import annotations

from bepo.core.errors import Parser, UserError, path_of, whole_number
from bepo.envs.alfworld.generate import SPLITS, generate


def main() -> None:
    """Write the games, and print how to use them."""
    parser = Parser(prog="python -m bepo.envs.alfworld.write_games", description=__doc__)
    parser.add_argument("folder", type=path_of, help="the folder for ALFWORLD_DATA; json_2.1.1 is created in it")
    parser.add_argument(
        "--games", type=whole_number(1, 100_000), default=100, help="number of games in each split (default: 100)"
    )
    options = parser.parse_args()
    try:
        for split in SPLITS:
            for number in range(options.games):
                generate(split, number).write(options.folder / "json_2.1.1" / split)
    except (OSError, UserError) as error:
        parser.error(str(error))
    print(f"{options.games} games of each split: export ALFWORLD_DATA={options.folder}")


if __name__ == "__main__":
    main()
