"""Small torch twins of catalogue models, written by hand; importing this needs torch."""

import torch
from torch import nn
from torch.nn.functional import gelu


class Bottleneck(nn.Module):
    def __init__(self, entering, width, stride):
        super().__init__()
        leaving = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(entering, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = (
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.conv3, self.bn3 = nn.Conv2d(width, leaving, 1, bias=False), nn.BatchNorm2d(leaving)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or entering != leaving:
            self.downsample = nn.Sequential(
                nn.Conv2d(entering, leaving, 1, stride, bias=False), nn.BatchNorm2d(leaving)
            )

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


def resnet50():
    layers = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    entering = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        for block in range(depth):
            layers.append(Bottleneck(entering, 64 << stage, 2 if stage and not block else 1))
            entering = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def scores(query, key, value, heads):
    """Plain attention, with the scores written out."""
    batch, tokens, width = query.shape
    query, key, value = (
        part.view(batch, tokens, heads, width // heads).transpose(1, 2)
        for part in (query, key, value)
    )
    weights = (query @ key.transpose(-1, -2) / (width // heads) ** 0.5).softmax(-1)
    return (weights @ value).transpose(1, 2).reshape(batch, tokens, width)


class BertBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output, self.norm1 = nn.Linear(width, width), nn.LayerNorm(width)
        self.fc1, self.fc2, self.norm2 = (
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
            nn.LayerNorm(width),
        )

    def forward(self, x):
        x = self.norm1(
            x + self.output(scores(self.query(x), self.key(x), self.value(x), self.heads))
        )
        return self.norm2(x + self.fc2(gelu(self.fc1(x))))


class Bert(nn.Module):
    def __init__(self, blocks=12, width=768, heads=12):
        super().__init__()
        self.words, self.positions, self.segments = (
            nn.Embedding(entries, width) for entries in (30522, 512, 2)
        )
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.Sequential(*(BertBlock(width, heads) for _ in range(blocks)))
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(
            self.words(tokens) + self.positions(places) + self.segments(torch.zeros_like(tokens))
        )
        return torch.tanh(self.pooler(self.blocks(x)[:, 0]))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.c_attn, self.c_proj = (
            nn.LayerNorm(width),
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )
        self.ln_2, self.fc1, self.fc2 = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x):
        x = x + self.c_proj(scores(*self.c_attn(self.ln_1(x)).chunk(3, -1), self.heads))
        return x + self.fc2(gelu(self.fc1(self.ln_2(x))))


class Gpt2(nn.Module):
    def __init__(self, blocks=12, width=768, heads=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(50257, width), nn.Embedding(1024, width)
        self.blocks = nn.Sequential(*(GptBlock(width, heads) for _ in range(blocks)))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, 50257, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        return self.lm_head(self.ln_f(self.blocks(x)))
