"""Recurrences over time in PyTorch, the fastest ways to write them that we know, as peers of bench_papers.py and
gpu/rows.py: matrix products of chunks for those with a state, steps for those without."""

import torch


def fading(decay, added):
    """State after each step of dimension 1: h = decay h + added."""
    h, states = torch.zeros_like(added[:, 0]), []
    for d, a in zip(decay.unbind(1), added.unbind(1)):
        h = torch.addcmul(a, d, h)
        states.append(h)
    return torch.stack(states, 1)


def before_chunks(decay, added):
    """The state before each chunk of dimension 2, of how much a chunk fades it and what it adds."""
    state, states = torch.zeros_like(added[:, :, 0]), []
    for c in range(added.shape[2]):
        states.append(state)
        state = decay[:, :, c] * state + added[:, :, c]
    return torch.stack(states, 2)


def state_space_duality(x, dt, a, k, q, chunk=64):
    b, t, h, p = x.shape
    cut = lambda y: y.view(b, t // chunk, chunk, -1)
    added = cut(dt[..., None] * x).unflatten(3, (h, p)).permute(0, 3, 1, 2, 4)
    fade = cut(dt * a).permute(0, 3, 1, 2).cumsum(3)
    k, q = cut(k)[:, None], cut(q)[:, None]
    past = torch.ones(chunk, chunk, dtype=torch.bool, device=x.device).tril()
    decay = (fade[..., :, None] - fade[..., None, :]).masked_fill(~past, -torch.inf).exp()
    last = fade[..., -1:]
    states = before_chunks(last.exp()[..., None], (k * (last - fade).exp()[..., None]).mT @ added)
    y = ((q @ k.mT) * decay) @ added + fade.exp()[..., None] * (q @ states)
    return y.permute(0, 2, 3, 1, 4).reshape(x.shape)


def gated_linear_attention(q, k, v, g, chunk=64):
    q, k, v, g = (t.unflatten(2, (-1, chunk)) for t in (q, k, v, g))
    fade = g.cumsum(3)
    last = fade[..., -1:, :]
    q, far = q * fade.exp(), k * (last - fade).exp()
    states = before_chunks(last.exp().mT, far.mT @ v)
    return ((q @ (k * (-fade).exp()).mT).tril() @ v + q @ states).flatten(2, 3)


def hgrn(x, f):
    gate = torch.sigmoid(f)
    return fading(gate, (1 - gate) * x)


def linear_attention(q, k, v, chunk=64):
    """softmax left out: a causal sum of q k v, [H, T, D]."""
    q, k, v = (x.unflatten(1, (-1, chunk)) for x in (q, k, v))
    added = k.mT @ v
    states = added.cumsum(1) - added
    return ((q @ k.mT).tril() @ v + q @ states).flatten(1, 2)


def retention(q, k, v, w, chunk=64):
    """As linear_attention; what is n steps back counts exp(-n w[h])."""
    q, k, v = (x.unflatten(1, (-1, chunk)) for x in (q, k, v))
    step = torch.arange(chunk, device=q.device)
    w = w[:, None, None]
    decay = torch.exp(-(step[:, None] - step) * w).tril()[:, None]
    far, near = (torch.exp(-n * w)[..., None] for n in (chunk - 1 - step, step + 1))
    whole = torch.exp(-chunk * w)[None, ..., None].expand(1, -1, q.shape[1], 1, 1)
    states = before_chunks(whole, ((k * far).mT @ v)[None])[0]
    return (((q @ k.mT) * decay) @ v + (q * near) @ states).flatten(1, 2)
