"""Torch's operators by name: the kind of layer, and whether they cost only memory traffic."""

from __future__ import annotations

from dpsim.workload.layer import Kind

# Operators without matrix products, in addition to views and pointwise operators.
FREE = frozenset(
    {
        "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d",
        "_embedding_bag", "_fused_dropout", "_fused_rms_norm", "_fused_rms_norm_backward",
        "_local_scalar_dense", "_log_softmax", "_log_softmax_backward_data",
        "_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_reshape_alias",
        "_safe_softmax", "_softmax", "_softmax_backward_data", "_thnn_fused_gru_cell",
        "_thnn_fused_gru_cell_backward", "_thnn_fused_lstm_cell",
        "_thnn_fused_lstm_cell_backward_impl", "_to_copy", "_unique2", "_unsafe_index",
        "_unsafe_view", "_weight_norm_interface", "_weight_norm_interface_backward",
        "adaptive_avg_pool2d", "adaptive_max_pool2d", "adaptive_max_pool2d_backward", "add",
        "addcdiv", "addcmul", "all", "amax", "amin", "any", "arange", "argmax", "argmin", "argsort",
        "as_strided", "avg_pool1d", "avg_pool2d", "avg_pool2d_backward", "avg_pool3d",
        "batch_norm_backward", "bernoulli", "binary_cross_entropy", "bincount", "bitwise_and",
        "bucketize", "cat", "clone", "col2im", "constant_pad_nd", "copy", "cross_entropy_loss",
        "cudnn_batch_norm", "cummax", "cummin", "cumprod", "cumsum", "detach", "dist", "div",
        "elu_backward", "embedding", "embedding_dense_backward", "empty", "empty_like",
        "empty_strided", "eye", "fill", "flip", "floor_divide", "fmod", "full", "full_like",
        "gather", "glu", "glu_backward", "hardtanh_backward", "histc", "hypot", "im2col", "index",
        "index_add", "index_copy", "index_fill", "index_put", "index_select", "instance_norm",
        "isin", "lift_fresh", "linspace", "log_sigmoid_backward", "log_sigmoid_forward",
        "logcumsumexp", "logsumexp", "masked_fill", "masked_scatter", "masked_scatter_backward",
        "masked_select", "max", "max_pool1d", "max_pool2d_with_indices",
        "max_pool2d_with_indices_backward", "max_pool3d_with_indices",
        "max_pool3d_with_indices_backward", "mean", "median", "min", "miopen_batch_norm",
        "mish_backward", "mse_loss", "mse_loss_backward", "mul", "native_batch_norm",
        "native_batch_norm_backward", "native_dropout", "native_dropout_backward",
        "native_group_norm", "native_group_norm_backward", "native_layer_norm",
        "native_layer_norm_backward", "new_empty", "new_empty_strided", "new_full", "new_ones",
        "new_zeros", "nll_loss2d_backward", "nll_loss2d_forward", "nll_loss_backward",
        "nll_loss_forward", "nonzero", "norm", "normal", "one_hot", "ones", "ones_like",
        "pixel_shuffle", "prod", "rand", "rand_like", "randint", "randn", "randn_like",
        "reflection_pad2d", "remainder", "repeat", "replication_pad2d", "roll", "rrelu_with_noise",
        "scalar_tensor", "scatter", "scatter_add", "searchsorted", "select_backward",
        "select_scatter", "set_", "slice_backward", "slice_scatter", "softplus",
        "softplus_backward", "sort", "split_with_sizes_copy", "stack", "std", "sub", "sum",
        "sym_numel", "sym_size", "sym_storage_offset", "sym_stride", "tile", "topk", "tril",
        "tril_indices", "triu", "triu_indices", "unfold_backward", "uniform", "unique2",
        "upsample_bicubic2d", "upsample_bilinear2d", "upsample_bilinear2d_backward",
        "upsample_nearest2d", "upsample_nearest2d_backward", "var", "var_mean", "where", "zero",
        "zeros", "zeros_like",
    }
)  # fmt: skip

# The first part that the name contains decides.
_KINDS: tuple[tuple[str, Kind], ...] = (
    ("convolution", "conv"),
    ("attention", "attention"),
    # Before mm. Linear layers fold the batch, so batched products are attention.
    ("bmm", "attention"),
    ("mm", "linear"),
    ("embedding", "embedding"),
    ("norm", "norm"),
    ("pool", "pool"),
)


def kind_of(operator: str) -> Kind:
    """Return the kind of layer for an operator such as ``aten.addmm``."""
    name = operator.rpartition(".")[2]
    return next((kind for part, kind in _KINDS if part in name), "elementwise")


def allocates(operator: str) -> bool:
    """Return whether an operator only allocates memory."""
    return operator.rpartition(".")[2].startswith(("empty", "new_empty"))
