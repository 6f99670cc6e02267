"""Gradients in half precision: scaled inside of a part, as they are outside."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ulc.blocks.learner import Learner
from ulc.config import SGD, Adam
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.networks.gradient_scale import GROWTH_STEPS, START, GradientScale, Scaled
from ulc.testing import require_same, through_a_file

CPU = torch.device("cpu")
INPUTS, GIVEN = torch.arange(24.0).view(6, 4).sin(), torch.tensor([0, 1, 2, 2, 1, 0])


def new_part():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def new_learner(descent=SGD(lr=0.1), accumulate=1):  # noqa: B008 (a frozen value)
    torch.manual_seed(0)
    learner = Learner(Classifier(nn.Linear(4, 5), 5, 3, HeadSpec()), descent)
    learner.accumulate = accumulate
    learner.network.precision = "float16"
    learner.network.gradient_scale = GradientScale(CPU)
    return learner


def learn(learner, factor=1.0):
    learner.descend(factor * F.cross_entropy(learner(INPUTS).logits, GIVEN))


def scale_of(learner):
    return float(learner.network.gradient_scale.scale)


def test_gradients_outside_do_not_depend_on_the_scale():
    plain, scaled = new_part(), new_part()
    own, theirs = (INPUTS.clone().requires_grad_() for _ in range(2))
    F.cross_entropy(plain(own), GIVEN).backward()
    F.cross_entropy(Scaled(scaled, torch.tensor(1024.0))(theirs), GIVEN).backward()
    assert torch.equal(theirs.grad, own.grad)
    for ours, expected in zip(scaled.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours.grad, expected.grad)


def test_gradients_inside_are_multiplied_by_the_scale():
    seen = []
    part = new_part()
    part[2].register_full_backward_hook(lambda module, into, out: seen.append(out[0]))
    for scale in (1.0, 1024.0):
        F.cross_entropy(Scaled(part, torch.tensor(scale))(INPUTS), GIVEN).backward()
    assert torch.equal(seen[1], 1024 * seen[0])


def second_derivatives(part, called):
    """Gradients of the loss after a trial step, differentiated through the step."""
    weights = dict(part.named_parameters())
    inputs = INPUTS.clone().requires_grad_()
    loss = F.cross_entropy(called(inputs), GIVEN)
    first = torch.autograd.grad(loss, [*weights.values(), inputs], create_graph=True)
    total = sum(each.square().sum() for each in first)
    return torch.autograd.grad(total, [*weights.values(), inputs])


def test_second_derivatives_do_not_depend_on_the_scale():
    plain, scaled = new_part(), new_part()
    expected = second_derivatives(plain, plain)
    found = second_derivatives(scaled, Scaled(scaled, torch.tensor(1024.0)))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_small_gradients_survive_half_precision_with_a_scale_only():
    def gradient(learner):
        (1e-6 * F.cross_entropy(learner(INPUTS).logits, GIVEN)).backward()
        return learner.network.backbone.weight.grad

    exact, scaled, unscaled = new_learner(), new_learner(), new_learner()
    exact.network.precision, exact.network.gradient_scale = "float32", None
    unscaled.network.gradient_scale = None
    wanted = gradient(exact)
    torch.testing.assert_close(gradient(scaled), wanted, rtol=0.01, atol=1e-3 * wanted.abs().max())
    assert (gradient(unscaled) - wanted).abs().max() > 0.1 * wanted.abs().max()


@pytest.mark.parametrize("descent", [SGD(lr=0.1), Adam(lr=0.1)])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_an_overflow_skips_the_step_and_halves_the_scale(descent, accumulate):
    learner = new_learner(descent, accumulate)
    for _ in range(2 * accumulate):
        learn(learner)
    before = through_a_file(learner.state_dict())
    for number in range(accumulate):
        learn(learner, 1e6 if number == 0 else 1.0)
    after = learner.state_dict()
    scaling = after["_extra_state"].pop("gradient_scale")
    assert before["_extra_state"].pop("gradient_scale")["scale"] == START
    assert (float(scaling["scale"]), float(scaling["good_steps"])) == (START / 2, 0)
    require_same(before, after, "a skipped step changes weights or optimiser")
    for _ in range(accumulate):
        learn(learner)
    assert scale_of(learner) == START / 2
    assert not torch.equal(before["network.head.weight"], learner.network.head.weight)


def test_the_scale_doubles_after_many_good_steps():
    scale, good = GradientScale(CPU), [torch.ones(3)]
    for _ in range(GROWTH_STEPS - 1):
        assert not scale.update(good)
    assert float(scale.scale) == START
    scale.update(good)
    assert (float(scale.scale), float(scale.good_steps)) == (2 * START, 0)


def test_a_training_whose_gradients_are_never_finite_is_not_skipped_for_ever():
    scale, bad = GradientScale(CPU), [torch.ones(2), torch.tensor([1.0, torch.nan])]
    skipped = [bool(scale.update(bad)) for _ in range(20)]
    assert skipped == [True] * 16 + [False] * 4
    assert float(scale.scale) == 1


def test_two_learners_have_scales_of_their_own():
    first, second = new_learner(), new_learner()
    learn(first, 1e6)
    learn(second)
    assert (scale_of(first), scale_of(second)) == (START / 2, START)


def test_a_resumed_learner_has_the_same_scale():
    learner, resumed = new_learner(), new_learner()
    for factor in (1.0, 1e6, 1.0):
        learn(learner, factor)
    resumed.load_state_dict(through_a_file(learner.state_dict()))
    for each in (learner, resumed):
        learn(each)
    require_same(learner.state_dict(), resumed.state_dict(), "the resumed learner differs")
    assert float(resumed.network.gradient_scale.good_steps) == 2
