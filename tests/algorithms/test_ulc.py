"""ULC, equation by equation (Huang et al., AAAI 2022; docs/algorithms/ulc.md)."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from stubs import Believes, catch_losses, spy_on_division

from ulc.algorithms import ulc as module
from ulc.algorithms.ulc import ULC, compute_trust, correct
from ulc.blocks.loss_mixture import BetaLossMixture, GaussianLossMixture
from ulc.blocks.losses import negative_entropy
from ulc.blocks.mixmatch import SemiSupervisedLoss
from ulc.blocks.uncertainty import (
    CorruptedLogProbability,
    IntegratedPredictions,
    normalised_entropy,
    plain_log_probability,
    scale_by_log_classes,
    scale_by_range,
)
from ulc.networks.classifier import Classifier
from ulc.testing import Case, toy_data

K = 3


def build(data=None, **options):
    return Case(ULC, "vector", options).build(data or toy_data("vector"))


class TestTrust:
    """Equation 5: ω = (1 − ε)^r · p^(1 − r)."""

    def test_by_hand(self):
        """(1 − .75)^.5 · .64^.5 = .5 · .8 = .4."""
        found = compute_trust(torch.tensor([0.64]), torch.tensor([0.75]), 0.5)
        torch.testing.assert_close(found, torch.tensor([0.4]))

    @pytest.mark.parametrize(
        ("doubt", "needed"), [(0.0, 0.463), (0.5, 0.5), (0.75, 0.54), (0.9, 0.598), (0.99, 0.772)]
    )
    def test_how_likely_clean_a_label_must_be_to_be_trusted(self, doubt, needed):
        """At r = .1, τ = .5: p = (τ / (1 − ε)^r)^(1 / (1 − r))."""
        by_formula = (0.5 / (1 - doubt) ** 0.1) ** (1 / 0.9)
        assert by_formula == pytest.approx(needed, abs=5e-4)
        doubts = torch.full((2,), doubt)
        found = compute_trust(torch.tensor([needed - 1e-3, needed + 1e-3]), doubts, 0.1)
        assert (found >= 0.5).tolist() == [False, True]

    def test_without_doubt_weight_it_is_the_mixtures_probability(self):
        clean = torch.tensor([0.0, 0.3, 1.0])
        doubt = torch.tensor([1.0, 0.5, 0.0])
        assert torch.equal(compute_trust(clean, doubt, 0.0), clean)

    def test_a_wholly_unsure_network_trusts_nothing(self):
        found = compute_trust(torch.tensor([0.3, 1.0]), torch.ones(2), 0.1)
        assert torch.equal(found, torch.zeros(2))

    def test_it_falls_with_doubt_and_rises_with_clean_probability(self):
        steps = torch.linspace(0, 1, 11)
        assert (compute_trust(torch.full((11,), 0.8), steps, 0.1).diff() < 0).all()
        assert (compute_trust(steps, torch.full((11,), 0.3), 0.1).diff() > 0).all()


def test_corrected_labels_by_hand():
    """Equation 6: y = ω·ỹ + (1 − ω)·ŷ.

    ω = .6, ỹ = class 2, ŷ = (.5, .3, .2): .4·(.5, .3, .2) + .6·(0, 0, 1) = (.2, .12, .68).
    ω = 0 is ŷ, ω = 1 is ỹ.
    """
    prediction = torch.tensor([[0.5, 0.3, 0.2]] * 3)
    found = correct(prediction, torch.tensor([2, 2, 1]), torch.tensor([0.6, 0.0, 1.0]))
    expected = torch.tensor([[0.2, 0.12, 0.68], [0.5, 0.3, 0.2], [0.0, 1.0, 0.0]])
    torch.testing.assert_close(found, expected)


class TestCorrectLabels:
    """Lines 3 to 13 of Algorithm 1, with networks and mixtures whose answers are known."""

    sizes = (4, 2, 2)
    first = torch.tensor([[0.7, 0.2, 0.1]] * 8)
    second = torch.tensor([[0.2, 0.2, 0.6]] * 8)
    clean = torch.linspace(0.1, 0.8, 8), torch.linspace(0.9, 0.2, 8)

    def corrected(self, monkeypatch, **options):
        algorithm = build(toy_data("vector", self.sizes), **options)
        said = {id(algorithm.pair[0]): self.first, id(algorithm.pair[1]): self.second}
        monkeypatch.setattr(
            module,
            "integrate_predictions",
            lambda learner, data, passes, among: IntegratedPredictions(
                said[id(learner)].log(), torch.zeros(8), 0.1 * said[id(learner)]
            ),
        )
        algorithm.loss_mixture = Believes(*self.clean)
        record = algorithm.update_trust()
        return algorithm, record

    def test_losses_come_from_the_integrated_predictions(self, monkeypatch):
        """Equation 1: ℓ = −log ŷ[ỹ], network by network."""
        algorithm, _ = self.corrected(monkeypatch)
        given = algorithm.data.given
        for asked, prediction in zip(
            algorithm.loss_mixture.asked, (self.first, self.second), strict=True
        ):
            torch.testing.assert_close(asked, -prediction[torch.arange(8), given].log())

    def test_the_peers_losses_judge_the_own_network_doubts(self, monkeypatch):
        """p from the peer, ε and ŷ of the network itself: for k = 1 the mixture of the
        second network's losses and the entropy of the first one's prediction."""
        algorithm, _ = self.corrected(monkeypatch, doubt_weight=0.25)
        first = normalised_entropy(self.first.log())
        second = normalised_entropy(self.second.log())
        expected = torch.stack(
            [
                (1 - first) ** 0.25 * self.clean[1] ** 0.75,
                (1 - second) ** 0.25 * self.clean[0] ** 0.75,
            ]
        )
        torch.testing.assert_close(algorithm.trust, expected)
        torch.testing.assert_close(algorithm.doubt, torch.stack([first, second]))
        torch.testing.assert_close(algorithm.prediction, torch.stack([self.first, self.second]))
        swapped = torch.stack(
            [
                (1 - first) ** 0.25 * self.clean[0] ** 0.75,
                (1 - second) ** 0.25 * self.clean[1] ** 0.75,
            ]
        )
        assert not torch.allclose(algorithm.trust, swapped, atol=0.1)

    def test_without_eum_trust_is_the_peers_mixture_alone(self, monkeypatch):
        algorithm, _ = self.corrected(monkeypatch, doubt_weight=0.0)
        torch.testing.assert_close(algorithm.trust, torch.stack([self.clean[1], self.clean[0]]))

    def test_outputs_are_those_of_algorithm_1(self, monkeypatch):
        """Y, ω, ε, σ^x and σ for each network; y = ω·ỹ + (1 − ω)·ŷ of the network itself."""
        algorithm, _ = self.corrected(monkeypatch)
        outputs = algorithm.outputs()
        assert {name: values.shape for name, values in outputs.items()} == {
            "corrected_labels": (2, 8, K),
            "clean_probability": (2, 8),
            "epistemic": (2, 8),
            "instance_noise_std": (2, 8, K),
            "class_noise_std": (2, K, K),
        }
        given = torch.nn.functional.one_hot(algorithm.data.given, K)
        for side, prediction in enumerate((self.first, self.second)):
            omega = algorithm.trust[side, :, None]
            expected = omega * given + (1 - omega) * prediction
            np.testing.assert_allclose(outputs["corrected_labels"][side], expected, atol=1e-6)
        np.testing.assert_allclose(outputs["class_noise_std"], 0.3 / math.sqrt(K), rtol=1e-6)
        np.testing.assert_allclose(algorithm.class_measures()["class_noise"], 0.3 / math.sqrt(K))

    def test_the_judgement_is_the_mean_of_both_networks(self, monkeypatch):
        algorithm, _ = self.corrected(monkeypatch)
        judgement = algorithm.judge()
        np.testing.assert_allclose(judgement.clean_probability, algorithm.trust.mean(0))
        np.testing.assert_allclose(judgement.epistemic, algorithm.doubt.mean(0))
        mean = (self.first + self.second) / 2
        np.testing.assert_allclose(judgement.prediction, mean, atol=1e-6)
        np.testing.assert_allclose(judgement.aleatoric, 0.1 / 3, rtol=1e-5)

    def test_what_the_mixtures_could_not_do_is_recorded(self, monkeypatch):
        """Three classes of 36, 15 and 1 example: the last falls back, for both networks."""
        algorithm = build(toy_data("vector", (36, 15, 1)))
        record = algorithm.update_trust()
        assert record == {
            "fallback_classes": 1.0,
            "one_component_classes": 0.0,
            "losses_not_finite": 0.0,
            "moved_by_doubt": record["moved_by_doubt"],
        }

    def test_how_many_labels_doubt_moves_across_the_threshold_is_recorded(self, monkeypatch):
        """ω = (1 − ε)^r · p^(1 − r) against p, both at τ, over both networks."""
        algorithm, record = self.corrected(monkeypatch, doubt_weight=0.5)
        before = torch.stack([self.clean[1], self.clean[0]]) >= 0.5
        moved = (before != (algorithm.trust >= 0.5)).float().mean()
        assert record["moved_by_doubt"] == pytest.approx(float(moved))
        assert moved > 0
        _, unmoved = self.corrected(monkeypatch, doubt_weight=0.0)
        assert unmoved["moved_by_doubt"] == 0


def test_labels_as_likely_right_as_the_threshold_are_trusted(monkeypatch):
    """ω ≥ τ, where DivideMix has p > τ."""
    algorithm = build(threshold=0.5, warmup_epochs=0)
    masks = spy_on_division(monkeypatch, module)
    given = torch.tensor([0.5, 0.5 - 1e-6, 0.5 + 1e-6]).repeat(21)[:61]

    def update_trust(**_):
        algorithm.trust[:] = given
        algorithm.prediction[:] = 1 / K
        return {}

    monkeypatch.setattr(algorithm, "update_trust", update_trust)
    algorithm.run_epoch(0)
    assert len(masks) == 2
    for mask in masks:
        assert mask.tolist() == [True, False, True] * 20 + [True]


class TestWarmUp:
    def test_noisy_logits_teach_and_clean_logits_are_held_back(self, monkeypatch):
        """−mean log p̃[ỹ] with p̃ through noisy logits, plus Σ p log p of clean ones.

        Told that p̃ is (½, ¼, ¼) whatever the logits, the first term is log 2 for labels of
        class 0 and log 4 for the others.
        """
        algorithm = build(warmup_entropy=0.7, warmup_batch_size=61)
        outputs = []
        told = torch.tensor([0.5, 0.25, 0.25]).log()

        def log_probability(output):
            outputs.append(output)
            return told.expand(len(output.logits), K)

        algorithm.log_probability = log_probability
        losses = catch_losses(monkeypatch, algorithm.pair)
        algorithm.run_epoch(0)
        assert len(losses) == len(outputs) == 2
        cross_entropy = (36 * math.log(2) + 25 * math.log(4)) / 61
        for loss, output in zip(losses, outputs, strict=True):
            expected = cross_entropy + 0.7 * float(negative_entropy(output.logits.detach()))
            assert float(loss) == pytest.approx(expected, abs=1e-5)

    def test_it_learns_how_noisy_the_logits_are(self):
        algorithm = build()
        algorithm.run_epoch(0)
        for learner in algorithm.pair:
            network = learner.network
            started = Classifier(network.backbone, 8, K, network.spec)
            assert not torch.allclose(network.noise_head.bias, started.noise_head.bias, atol=1e-3)
            assert not torch.allclose(network.class_std, started.class_std, atol=1e-4)

    def test_it_lasts_as_long_as_it_should(self):
        algorithm = build(warmup_epochs=2)
        records = [algorithm.run_epoch(epoch) for epoch in range(3)]
        assert [sorted(record) == ["loss"] for record in records] == [True, True, False]
        assert "trusted_loss" in records[2]

    def test_before_it_ends_a_label_is_believed_as_far_as_it_is_predicted(self):
        algorithm = build()
        algorithm.run_epoch(0)
        judgement = algorithm.judge()
        given = algorithm.data.given.numpy()
        expected = judgement.prediction[np.arange(61), given]
        np.testing.assert_array_equal(judgement.clean_probability, expected)
        assert np.isnan(judgement.epistemic).all()


class TestLearning:
    def losses(self, monkeypatch, epoch, **options):
        """Losses of all steps in one epoch, with both parts of the loss set to 1."""
        algorithm = build(warmup_epochs=1, rampup_epochs=4, batch_size=10, **options)
        algorithm.run_epoch(1)
        one = torch.ones(())
        mixed = SemiSupervisedLoss(one, one, torch.tensor([[0.0, 1.0, 2.0]]))
        monkeypatch.setattr(algorithm, "semi_supervised_loss", lambda *_: mixed)
        monkeypatch.setattr(module, "divide", lambda clean, *_: torch.arange(len(clean)) < 25)
        losses = catch_losses(monkeypatch, algorithm.pair)
        algorithm.run_epoch(epoch)
        return [float(loss) for loss in losses]

    @pytest.mark.parametrize("epoch", [1, 3, 5, 9])
    def test_the_doubtful_weight_rises_step_by_step(self, monkeypatch, epoch):
        """25 trusted examples in batches of 10 are three steps, numbered 0, ⅓, ⅔ of an epoch;
        λ_u is 8 after four epochs: loss 1 + 8·min((epoch + step − 1) / 4, 1)."""
        found = self.losses(monkeypatch, epoch, doubtful_weight=8.0)
        expected = [1 + 8 * min((epoch + step / 3 - 1) / 4, 1) for step in range(3)]
        assert found == pytest.approx(expected * 2)

    def test_the_prior_penalty_is_off_and_can_be_had(self, monkeypatch):
        """KL(uniform ‖ p) for the logits (0, 1, 2): log Σe^v − mean v − log 3 = .3090."""
        off = self.losses(monkeypatch, 1, doubtful_weight=0.0)
        on = self.losses(monkeypatch, 1, doubtful_weight=0.0, prior_weight=2.0)
        penalty = math.log(1 + math.e + math.e**2) - 1 - math.log(3)
        assert off == pytest.approx([1.0] * 6)
        assert on == pytest.approx([1 + 2 * penalty] * 6)

    @pytest.mark.parametrize("refinement", ["epoch", "batch"])
    def test_what_is_mixed(self, monkeypatch, refinement):
        """Trusted labels: sharpened y, from the epoch's ŷ or from this batch's guess. Doubtful
        ones: the sharpened guess of both networks, the learner in training mode, its peer not.
        """
        algorithm = build(refinement=refinement, temperature=0.5, mixup_alpha=3.0)
        learner, peer = algorithm.pair
        algorithm.prediction[0] = torch.tensor([0.5, 0.3, 0.2])
        algorithm.trust[0] = 0.6
        asked, mixed, through = [], [], []

        def guess(learners, views):
            asked.append([(each, each.network.training) for each in learners])
            return torch.tensor([[0.2, 0.2, 0.6]]).expand(len(views[0]), K)

        monkeypatch.setattr(module, "guess", guess)

        def mixmatch_loss(*parts, **rest):
            mixed.append(parts)
            through.append(rest)

        monkeypatch.setattr(module, "mixmatch_loss", mixmatch_loss)
        views = (torch.zeros(2, 6),) * 2
        known = SimpleNamespace(
            index=torch.tensor([5, 9]), given=algorithm.data.given[[5, 9]], views=views
        )
        unknown = SimpleNamespace(views=(torch.ones(3, 6),) * 2)
        corrected = algorithm.epoch_targets(0)
        algorithm.semi_supervised_loss(0, known, unknown, corrected)

        ((taught, with_labels, without),) = mixed
        assert taught is learner
        assert asked[0] == [(learner, True), (peer, False)]
        assert peer.network.training
        refined = torch.tensor([[0.5, 0.3, 0.2] if refinement == "epoch" else [0.2, 0.2, 0.6]])
        assert asked[1:] == ([] if refinement == "epoch" else [[(learner, True)]])
        expected = 0.4 * refined + 0.6 * torch.eye(3)[known.given]
        expected = expected**2 / (expected**2).sum(1, keepdim=True)
        torch.testing.assert_close(with_labels.target, expected)
        guessed = torch.tensor([[0.04, 0.04, 0.36]]).expand(3, K) / 0.44
        torch.testing.assert_close(without.target, guessed)
        assert with_labels.views is known.views
        assert without.views is unknown.views
        assert through == [{"alpha": 3.0, "log_probability": algorithm.log_probability}]

    def test_what_fixmatch_learns_from(self, monkeypatch):
        """Trusted labels: y as corrected, on the weak view. Doubtful ones: the guess of both
        networks on the weak view, for the strong one. Neither is sharpened.
        """
        algorithm = build(semi_supervised="fixmatch", confidence=0.8)
        learner, peer = algorithm.pair
        algorithm.prediction[0] = torch.tensor([0.5, 0.3, 0.2])
        algorithm.trust[0] = 0.6
        asked, learned = [], []

        def guess(learners, views):
            asked.append((list(learners), views))
            return torch.tensor([[0.2, 0.2, 0.6]]).expand(len(views[0]), K)

        monkeypatch.setattr(module, "guess", guess)
        monkeypatch.setattr(
            module, "fixmatch_loss", lambda *parts, **rest: learned.append((parts, rest))
        )
        known = SimpleNamespace(
            index=torch.tensor([5, 9]),
            given=algorithm.data.given[[5, 9]],
            views=(torch.zeros(2, 6),),
        )
        unknown = SimpleNamespace(views=(torch.ones(3, 6),), strong=(torch.ones(3, 6),))
        corrected = algorithm.epoch_targets(0)
        algorithm.semi_supervised_loss(0, known, unknown, corrected)
        (((taught, with_labels, without), rest),) = learned
        assert taught is learner
        assert asked == [([learner, peer], unknown.views)]
        expected = torch.tensor([0.2, 0.12, 0.08]) + 0.6 * torch.eye(3)[known.given]
        torch.testing.assert_close(with_labels.target, expected)
        assert with_labels.views is known.views
        assert without.views is unknown.strong
        torch.testing.assert_close(without.target, torch.tensor([[0.2, 0.2, 0.6]]).expand(3, K))
        assert rest == {"confidence": 0.8, "log_probability": algorithm.log_probability}

    def test_fixmatch_has_one_view_of_each_kind_and_a_weight_of_its_own(self, monkeypatch):
        """MixMatch has two weak views, and λ_u ramps up."""
        algorithm = build(semi_supervised="fixmatch", guess_weight=0.7, warmup_epochs=0)
        seen = []
        learn = algorithm.semi_supervised_loss
        monkeypatch.setattr(
            algorithm,
            "semi_supervised_loss",
            lambda *parts: seen.append(parts[1:3]) or learn(*parts),
        )
        algorithm.run_epoch(0)
        for known, unknown in seen:
            assert (len(known.views), len(unknown.views), len(unknown.strong)) == (1, 1, 1)
        assert [algorithm.doubtful_weight(since) for since in (0, 0.5, 99)] == [0.7] * 3
        mixing = build(doubtful_weight=8.0, rampup_epochs=4)
        assert [mixing.doubtful_weight(since) for since in (0, 0.5, 99)] == [0.0, 1.0, 8.0]

    def test_each_network_learns_from_its_own_trust(self, monkeypatch):
        """The first network trusts the first half, the second the other."""
        algorithm = build(warmup_epochs=0)
        half = torch.arange(61) < 30

        def update_trust(**_):
            algorithm.trust[0] = torch.where(half, 0.9, 0.1)
            algorithm.trust[1] = torch.where(half, 0.1, 0.9)
            algorithm.prediction[:] = 1 / K
            return {}

        taught = {0: set(), 1: set()}
        learn = algorithm.semi_supervised_loss

        def remember(side, known, unknown, corrected):
            taught[side].update(known.index.tolist())
            return learn(side, known, unknown, corrected)

        monkeypatch.setattr(algorithm, "update_trust", update_trust)
        monkeypatch.setattr(algorithm, "semi_supervised_loss", remember)
        algorithm.run_epoch(0)
        best_of_first = set(taught[0]) - set(half.nonzero().flatten().tolist())
        assert set(half.nonzero().flatten().tolist()) <= taught[0]
        assert len(best_of_first) < K, "only a class's likeliest label may join"
        assert set((~half).nonzero().flatten().tolist()) <= taught[1]


def test_prediction_uses_neither_dropout_nor_noise():
    algorithm = build(dropout=0.5)
    inputs = next(algorithm.data.in_order()).inputs
    algorithm.eval()
    with torch.no_grad():
        logits = [
            learner.network.head(learner.network.backbone(inputs)) for learner in algorithm.pair
        ]
        found = algorithm.predict_proba(inputs)
    torch.testing.assert_close(found, ((logits[0] + logits[1]) / 2).softmax(1))


class TestAblationsAreValues:
    """Each ablation chooses another block."""

    @pytest.mark.parametrize("value", [True, False])
    @pytest.mark.parametrize("option", ["per_class", "monotone", "one_component_guard"])
    def test_the_noise_model(self, option, value):
        model = build(**{option: value}).loss_mixture
        assert isinstance(model, GaussianLossMixture)
        assert getattr(model, option) is value

    def test_the_mixture(self):
        assert isinstance(build(mixture="beta").loss_mixture, BetaLossMixture)
        assert build(mixture="beta").loss_mixture.per_class

    def test_the_logit_noise(self):
        off, local, shared = (build(logit_noise=kind) for kind in ("off", "local", "shared"))
        assert off.log_probability is plain_log_probability
        assert local.log_probability == CorruptedLogProbability(3, shared=False)
        assert shared.log_probability == CorruptedLogProbability(3, shared=True)
        assert off.pair[0].network.noise_head is None
        assert local.pair[0].network.noise_head is not None
        assert np.isnan(off.outputs()["instance_noise_std"]).all()
        assert "class_noise_std" not in off.outputs()
        measures = [set(each.class_measures()) for each in (off, shared)]
        assert measures[1] - measures[0] == {"class_noise"}

    def test_the_uncertainty(self):
        assert build().scaled_doubt is scale_by_log_classes
        assert build(doubt_scaling="range").scaled_doubt is scale_by_range

    def test_the_dropout(self):
        assert build(dropout=0.0).pair[0].network.dropout is None
        assert build(dropout=0.4).pair[0].network.dropout.p == 0.4
        assert not build().pair[0].network.before_last_stage
        assert build(dropout_place="last_stage").pair[0].network.before_last_stage

    def test_the_defaults_are_the_papers(self):
        """300 epochs aside: r = .1, T = 10, dropout .3, τ = .5, warm-up 30; no prior term."""
        config = ULC.config_class()
        assert config.per_class
        assert config.doubt_weight == 0.1
        assert config.logit_noise == "local"
        assert config.passes == 10
        assert config.dropout == 0.3
        assert config.threshold == 0.5
        assert config.warmup_epochs == 30
        assert config.prior_weight == 0
