"""Judge the labels of rows that an algorithm did not learn from."""

import numpy as np

from ulc.data.held_out import HeldOutRows
from ulc.labels.judgement import Judgement
from ulc.labels.unseen import judge_unseen
from ulc.training.model import Model


def judge_held_out(
    judgement: Judgement, model: Model, rows: HeldOutRows, *, passes: int, seed: int
) -> Judgement:
    """The judgement of held-out rows, by comparison with the rows that were learned from.

    If the algorithm estimates uncertainties, those of the held-out rows are estimated too.

    judgement: of the rows that were learned from
    passes: number of dropout passes; seed: of the dropout masks
    """
    prediction, given = model.predict_stored(rows.stored), rows.given.cpu().numpy()
    if np.isnan(judgement.epistemic).any():
        return judge_unseen(judgement, prediction, given)
    uncertainty = model.uncertainty_stored(rows.stored, passes=passes, seed=seed)
    return judge_unseen(
        judgement,
        prediction,
        given,
        epistemic=uncertainty.epistemic,
        aleatoric=uncertainty.aleatoric,
    )
