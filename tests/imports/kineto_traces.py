"""A small trace of a training step on a GPU, as PyTorch 2 exports it.

Two layers, a loss, an all-reduce and an update a step.
"""

import json

GRADIENTS = 8 * 3 * 3 * 3 + 8 + 80 + 10


class Recorder:
    """Writes events; operators and kernels get ids as Kineto gives them."""

    def __init__(self):
        self.events = [
            {
                "ph": "M",
                "name": "process_name",
                "pid": 1,
                "tid": 0,
                "ts": 0,
                "args": {"name": "python"},
            }
        ]
        self.id = 0

    def event(self, category, name, start, duration, thread=1, **args):
        self.id += 1
        event = {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 1,
            "tid": thread,
            "ts": start,
            "dur": duration,
        }
        self.events.append(event | {"args": {"External id": self.id, **args}})
        return self.id

    def operator(self, name, start, duration, thread=1, sequence=None, forward=0, **args):
        if sequence is not None:
            args |= {"Sequence number": sequence, "Fwd thread id": forward}
        return self.event("cpu_op", name, start, duration, thread, **args)

    def kernel(self, name, start, duration, operator, **args):
        self.id += 1
        launch = {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "pid": 1,
            "tid": 1,
            "ts": start - 5,
            "dur": 2,
        }
        self.events.append(launch | {"args": {"External id": operator, "correlation": self.id}})
        kernel = {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": 0,
            "tid": 7,
            "ts": start,
            "dur": duration,
        }
        self.events.append(
            kernel
            | {"args": {"External id": operator, "correlation": self.id, "stream": 7, **args}}
        )
        self.events.append(
            {
                "ph": "s",
                "id": self.id,
                "pid": 1,
                "tid": 1,
                "ts": start - 5,
                "cat": "ac2g",
                "name": "ac2g",
            }
        )


def step(recorder, number, start, slower=0.0, nccl_says=True):
    """One step of 1,000 us; ``slower`` microseconds are added to the convolution's kernel."""
    r, n = recorder, 100 * number
    r.event("user_annotation", f"ProfilerStep#{number}", start, 1000)
    shapes = {"Input Dims": [[4, 3, 32, 32], [8, 3, 3, 3], [8], [], [], [], [], [], []]}
    concrete = {
        "Concrete Inputs": ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
    }
    r.operator("aten::conv2d", start + 10, 20, sequence=n)
    conv = r.operator("aten::convolution", start + 11, 18, sequence=n, **shapes, **concrete)
    r.kernel("sm90_xmma_fprop_implicit_gemm", start + 40, 50 + slower, conv)
    r.operator(
        "aten::linear", start + 40, 20, sequence=n + 1, **{"Input Dims": [[4, 8], [10, 8], [10]]}
    )
    r.operator("aten::t", start + 41, 2, sequence=n + 1)
    addmm = r.operator("aten::addmm", start + 45, 10, sequence=n + 2)
    r.kernel("ampere_sgemm_32x32_tn", start + 110, 10, addmm)
    loss = r.operator("aten::cross_entropy_loss", start + 70, 5, sequence=n + 3)
    r.kernel("softmax_warp_forward", start + 130, 2, loss)

    back = "autograd::engine::evaluate_function: "
    for name, sequence, at, kernels in (
        ("NllLossBackward0", n + 3, 200, [("nll_loss_backward", 3)]),
        (
            "AddmmBackward0",
            n + 2,
            220,
            [("ampere_sgemm_32x32_nn", 8), ("ampere_sgemm_32x32_nt", 12)],
        ),
        ("ConvolutionBackward0", n, 260, [("sm90_xmma_wgrad_implicit_gemm", 90)]),
    ):
        r.operator(back + name, start + at, 15, thread=2, sequence=sequence, forward=1)
        inner = r.operator(f"aten::{name}", start + at + 1, 12, thread=2)
        for index, (kernel, duration) in enumerate(kernels):
            r.kernel(kernel, start + at + 10 + 10 * index, duration, inner)
    r.operator(back + "torch::autograd::AccumulateGrad", start + 290, 10, thread=2)
    says = {
        "Collective name": "allreduce",
        "In msg nelems": GRADIENTS,
        "dtype": "Float",
        "Group size": 8,
    }
    call = r.operator("record_param_comms", start + 310, 5, thread=2, **says)
    r.kernel(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
        start + 370,
        60,
        call,
        **(says if nccl_says else {}),
    )
    r.event("user_annotation", "Optimizer.step#SGD.step", start + 500, 100)
    update = r.operator("aten::_foreach_add_", start + 510, 20)
    r.kernel("multi_tensor_apply_kernel", start + 530, 7, update)


def gpu_trace(**kwargs):
    """Two steps, the second's convolution 20 us slower."""
    recorder = Recorder()
    step(recorder, 1, 10_000.0, **kwargs)
    step(recorder, 2, 20_000.0, slower=20.0, **kwargs)
    return {
        "schemaVersion": 1,
        "deviceProperties": [
            {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000}
        ],
        "record_shapes": 1,
        "traceEvents": recorder.events,
    }


def write(path, trace):
    """The trace as a file."""
    path.write_text(json.dumps(trace))
    return path
