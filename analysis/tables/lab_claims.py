"""Table lab-claims: what the lab's exact measurements say about claims of the paper and about the method's parts."""

from analysis.claims.lab import LabClaim, decided, read_claims
from analysis.contrast import LEVEL
from analysis.data.lab import recorded
from analysis.grid.artefact import artefact
from analysis.grid.table import Table

_FORM = "z.3f"


@artefact("lab-claims", "table")
def lab_claims(_: object) -> Table:
    """Test every claim of ``paper/lab.yaml``."""
    claims = read_claims(recorded("fidelity"))
    sure = decided(claims)
    verdicts = {claim.id: claim.verdict(claim.id in sure) for claim in claims}
    ordered = sorted(claims, key=lambda claim: not claim.of_paper)
    return Table(
        "Claims that the lab's exact advantages decide: the error of advantages on Sokoban boards.",
        ["Claim", "At", "Weakest part", "Left", "Right", "Difference", "p", "Verdict"],
        [[claim.claim, claim.at, *_numbers(claim), verdicts[claim.id]] for claim in ordered],
        [
            "Error: the share of the true advantage's square that an estimate misses after the best scale (0: perfect, "
            "1: no signal). 16 boards, 200 groups each, 30 % success; K = 8, no slips, aliasing or noise unless said. "
            "Where states are aliased, estimators see a coarse key (the player's place), the policy the hidden state. "
            "Difference: mean over boards of left minus right with Student's 95 % interval; a claim with several parts "
            "shows the weakest. p is two-sided and not corrected. The verdicts follow from Holm's procedure over all "
            f"claims of the table at {100 * LEVEL:g} %. The claims of this project were written after the measurements "
            "of a prototype had been seen.",
            *(f"{claim.claim} {claim.note}" for claim in ordered if claim.note),
        ],
        headings=["Of the paper" if claim.of_paper else "Of this project" for claim in ordered],
        left=3,
        widths={0: 0.25},
        facts={f"lab/{name}/verdict": verdict for name, verdict in verdicts.items()},
    )


def _numbers(claim: LabClaim) -> list[str]:
    part = claim.weakest
    if part is None:
        return ["–", "–", "–", "–", "–"]
    difference = part.difference.text(_FORM)
    return [part.what, f"{part.more.mean():{_FORM}}", f"{part.less.mean():{_FORM}}", difference, f"{claim.p:.2g}"]
