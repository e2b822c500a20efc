"""What the peers with blocks of positions share (transformer.py has the rest)."""

import torch
import torch.nn.functional as F


def heads(x, parts, count):
    """[B, n, parts*D] -> parts of [B, H, n, P]."""
    return x.unflatten(-1, (parts, count, -1)).permute(2, 0, 3, 1, 4)


def merged(x):
    """[B, H, n, P] -> [B, n, D]."""
    return x.transpose(1, 2).flatten(2)


def cut(x, block):
    """[B, H, n, P] -> [B, H, G, block, P], zeros after the end."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % block)).unflatten(2, (-1, block))


def joined(x, n):
    """[B, H, G, block, P] -> [B, H, n, P]."""
    return x.flatten(2, 3)[:, :, :n]


def inside(n, block, device):
    """[G, block]: whether a slot holds a position."""
    return torch.arange(n + -n % block, device=device).view(-1, block) < n
