"""Meta-Learning (MLNT), step by step (Li et al., CVPR 2019)."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call

from ulc.algorithms import meta_learning as module
from ulc.algorithms.meta_learning import MetaLearning, draw_synthetic_labels
from ulc.testing import Case, toy_data

K = 3


def build(**options):
    return Case(MetaLearning, "vector", options).build(toy_data("vector"))


def only_batch(algorithm):
    (batch,) = algorithm.data.batches(61)
    return batch


class TestSyntheticLabels:
    def test_a_share_takes_the_label_of_a_neighbour(self):
        """All neighbours have the label 2: exactly half of ten labels become 2."""
        given = torch.tensor([0, 1] * 5 + [2])
        near = torch.full((11, 4), 10)
        torch.manual_seed(0)
        for _ in range(20):
            labels = draw_synthetic_labels(given, near, 0.5)
            assert int((labels[:10] == 2).sum()) in (4, 5), "five of eleven; one may be the last"
            kept = labels != 2
            assert torch.equal(labels[kept], given[kept])

    def test_without_a_share_nothing_changes_and_given_stays(self):
        given = torch.tensor([0, 1, 2])
        near = torch.tensor([[1], [2], [0]])
        assert torch.equal(draw_synthetic_labels(given, near, 0.0), given)
        assert draw_synthetic_labels(given, near, 1.0).tolist() == [1, 2, 0]
        assert given.tolist() == [0, 1, 2]

    def test_each_neighbour_is_taken_at_times(self):
        given = torch.arange(4)
        near = torch.tensor([[1, 2, 3]] * 4)
        torch.manual_seed(0)
        taken = {int(draw_synthetic_labels(given, near, 1.0)[0]) for _ in range(50)}
        assert taken == {1, 2, 3}


def test_neighbours_are_the_nearest_by_the_guides_features_without_oneself():
    algorithm = build(neighbours=4)
    batch = only_batch(algorithm)
    near = algorithm.find_neighbours(batch)
    assert near.shape == (61, 4)
    algorithm.eval()
    with torch.no_grad():
        features = algorithm.guide(batch.inputs).features
    distance = (features[:, None] - features[None]).norm(dim=2)
    distance[torch.arange(61), torch.arange(61)] = torch.inf
    expected = distance.sort(1).values[:, :4]
    found = distance.gather(1, near).sort(1).values
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_more_neighbours_than_examples_are_not_asked_for():
    algorithm = build(neighbours=10)
    (batch,) = (each for each in toy_data("vector", (2, 2, 1)).batches(61))
    assert algorithm.find_neighbours(batch).shape == (5, 4)


def test_a_neighbours_label_is_often_the_same():
    """After pre-training: that makes the synthetic noise plausible."""
    data = toy_data("vector", (40, 40, 40), wrong=0.0)
    algorithm, _ = Case(MetaLearning, "vector", {"pretrain_epochs": 5}).trained(data, 5)
    (batch,) = data.batches(120)
    near = algorithm.find_neighbours(batch)
    assert (batch.given[near] == batch.given[:, None]).float().mean() > 0.8


def meta_objective(algorithm, weights, batch, labels, taught):
    """J as a function of the weights, written out: an inner step, then KL(teacher ‖ student)."""
    network = copy.deepcopy(algorithm.student.network)

    def logits(weights):
        return functional_call(network, weights, (batch.inputs,)).logits

    slopes = torch.autograd.grad(
        F.cross_entropy(logits(weights), labels), list(weights.values()), create_graph=True
    )
    moved = {
        name: weight - algorithm.config.inner_rate * slope
        for (name, weight), slope in zip(weights.items(), slopes, strict=True)
    }
    student, teacher = logits(moved).softmax(1), taught.exp()
    return (teacher * (teacher / student).log()).sum(1).mean(), moved


@pytest.mark.parametrize("second_order", [False, True])
def test_the_meta_gradient(second_order):
    """First order: the gradient at the moved weights. Second order: also through the step."""
    algorithm = build(inner_rate=0.5, second_order=second_order)
    batch = only_batch(algorithm)
    labels = batch.given.roll(1)
    torch.manual_seed(0)
    taught = torch.randn(61, K).log_softmax(1)
    network = algorithm.student.network
    weights = {
        name: each.detach().clone().requires_grad_() for name, each in network.named_parameters()
    }
    value, moved = meta_objective(algorithm, weights, batch, labels, taught)
    wanted = weights if second_order else moved
    expected = torch.autograd.grad(value, list(wanted.values()))
    logits = algorithm.student(batch.inputs).logits
    found_value = algorithm.inconsistency(batch, logits, labels, taught)
    found = torch.autograd.grad(found_value, list(network.parameters()))
    torch.testing.assert_close(found_value.detach(), value.detach())
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


def test_the_two_orders_differ():
    gradients = []
    for second_order in (False, True):
        algorithm = build(inner_rate=0.5, second_order=second_order)
        batch = only_batch(algorithm)
        taught = torch.eye(K)[batch.given].add(0.1).log().log_softmax(1)
        logits = algorithm.student(batch.inputs).logits
        value = algorithm.inconsistency(batch, logits, batch.given.roll(1), taught)
        gradients.append(torch.autograd.grad(value, algorithm.student.network.head.weight)[0])
    assert not torch.allclose(*gradients, atol=1e-4)


@pytest.mark.parametrize("second_order", [False, True])
def test_a_step_descends_cross_entropy_and_the_mean_of_the_tasks(monkeypatch, second_order):
    """w − lr·∇(L_c + η·(J₁ + J₂)/2), without momentum or decay."""
    algorithm = build(
        tasks=2, second_order=second_order, sgd={"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0}
    )
    batch = only_batch(algorithm)
    sets = [batch.given.roll(1), batch.given.roll(2)]
    waiting = list(sets)
    monkeypatch.setattr(module, "draw_synthetic_labels", lambda *_: waiting.pop(0))
    network = copy.deepcopy(algorithm.student.network)
    twin = build(tasks=2, second_order=second_order)
    twin.student.network.load_state_dict(network.state_dict())
    taught = twin.teacher(batch.inputs).logits.log_softmax(1)
    logits = twin.student(batch.inputs).logits
    total = F.cross_entropy(logits, batch.given)
    for labels in sets:
        total = total + 0.8 * twin.inconsistency(batch, logits, labels, taught) / 2
    total.backward()
    algorithm.student.start_epoch(0)
    algorithm.train_step(batch, 0.8)
    for mine, theirs in zip(
        algorithm.student.network.parameters(), twin.student.network.parameters(), strict=True
    ):
        expected = theirs.detach() - 0.1 * theirs.grad
        torch.testing.assert_close(mine.detach(), expected, rtol=1e-4, atol=1e-6)


def test_thought_experiments_leave_the_running_statistics_alone():
    """One training pass of the student updates them, ten trial passes do not."""
    algorithm, plain = build(tasks=10), build()
    batch = only_batch(algorithm)
    algorithm.train_step(batch, 0.4)
    plain.train_step(batch, 0.0)
    name = "backbone.last_stage.1.running_mean"
    mine, theirs = (each.student.network.state_dict()[name] for each in (algorithm, plain))
    torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def test_the_order_of_events(monkeypatch):
    """Two epochs of the guide, one of the student without the meta part; then η ramps up from the
    student's start over four epochs. The teacher is a copy until then, and after it the mean of
    what it has seen: of one step an epoch here, 1 − 1/t."""
    algorithm = build(
        pretrain_epochs=2, delay_epochs=1, rampup_epochs=4, meta_weight=0.4, batch_size=61
    )
    weights, keeps = [], []
    monkeypatch.setattr(
        algorithm,
        "train_step",
        lambda batch, weight: weights.append(weight) or {"loss": torch.ones(())},
    )
    monkeypatch.setattr(algorithm.teacher, "update", lambda network, keep: keeps.append(keep))
    for epoch in range(8):
        algorithm.run_epoch(epoch)
    ramp = [0.4 * torch.tensor(-5 * (1 - t / 4) ** 2).exp().item() for t in (1, 2, 3, 4)]
    assert weights == pytest.approx([0.0, *ramp, 0.4])
    assert keeps == pytest.approx([0.0, 0.0, 1 / 2, 2 / 3, 3 / 4, 4 / 5])


@pytest.mark.parametrize(("since", "expected"), [(2, 0.0), (3, 0.99), (19, 0.99), (20, 0.999)])
def test_after_many_steps_the_teacher_keeps_what_the_paper_says(since, expected):
    """γ = .99 until η is reached, .999 then; a copy of the student before the meta part."""
    algorithm = build(delay_epochs=3, rampup_epochs=20)
    algorithm.steps.fill_(5000)
    assert algorithm.teacher_momentum(since) == expected


def test_on_a_small_set_the_teacher_has_learned_too():
    """Also the teacher, because it predicts and judges."""
    data = toy_data("vector", (60, 40, 20), wrong=0.0)
    options = {"pretrain_epochs": 2, "rampup_epochs": 4, "average": 0.999, "batch_size": 64}
    algorithm, _ = Case(MetaLearning, "vector", options).trained(data, 20)
    right = algorithm.judge().prediction.argmax(1) == data.given.numpy()
    assert right.mean() > 0.9


def test_parts_of_a_network_that_do_not_learn_are_no_obstacle():
    """A frozen layer, and one that nothing uses."""
    algorithm = build(pretrain_epochs=0, delay_epochs=0)
    algorithm.student.network.backbone.last_stage[0].weight.requires_grad_(False)
    algorithm.student.network.idle = torch.nn.Linear(2, 2)
    algorithm.train_step(only_batch(algorithm), 0.4)


def test_the_guide_learns_first_and_then_rests():
    algorithm = build(pretrain_epochs=1)
    start = copy.deepcopy(algorithm.state_dict())
    algorithm.run_epoch(0)
    assert not torch.equal(start["guide.network.head.weight"], algorithm.guide.network.head.weight)
    assert torch.equal(start["student.network.head.weight"], algorithm.student.network.head.weight)
    learned = algorithm.guide.network.state_dict()["head.weight"].clone()
    algorithm.run_epoch(1)
    assert torch.equal(learned, algorithm.guide.network.head.weight)
    assert not torch.equal(
        start["student.network.head.weight"], algorithm.student.network.head.weight
    )


def test_the_guide_predicts_until_there_is_a_teacher():
    algorithm = build(pretrain_epochs=1)
    algorithm.run_epoch(0)
    assert algorithm.networks() == [algorithm.guide.network]
    algorithm.run_epoch(1)
    assert algorithm.networks() == [algorithm.teacher.network]
    alone = build(pretrain_epochs=0)
    assert alone.networks() == [alone.teacher.network]


def test_the_defaults_are_the_papers():
    """CIFAR-10, where theirs is a mean over ten classes. The student's rate falls after 80 epochs
    of its own, ten after the guide's."""
    config = MetaLearning.config_class()
    found = (
        config.pretrain_epochs, config.delay_epochs, config.rampup_epochs, 10 * config.meta_weight,
        config.tasks, config.replaced, config.neighbours, config.inner_rate, config.second_order,
        config.early_average, config.average, config.batch_size, config.sgd.lr,
        config.sgd.weight_decay, config.sgd.milestones, config.guide_sgd.lr,
    )  # fmt: skip
    assert found == (
        10,
        3,
        20,
        0.4,
        10,
        0.5,
        10,
        0.2,
        False,
        0.99,
        0.999,
        128,
        0.2,
        1e-4,
        (90,),
        0.04,
    )
