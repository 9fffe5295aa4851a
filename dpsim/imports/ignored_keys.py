"""The effect of ignored configuration keys on a predicted step."""

from __future__ import annotations

_CLIPPING = (
    "clipping is not simulated: it reads all gradients and sums up one number over all workers"
)
_EFFECTS = {
    "gradient_clipping": _CLIPPING,
    "max_norm": _CLIPPING,
    "max_grad_norm": _CLIPPING,
    "enable_fsdp_float8_all_gather": "weights are simulated as gathered in the width of mixed "
    "precision: in fp8 half as many bytes travel",
    "implementation": "the update is simulated as torch's default, foreach: fused is faster, "
    "for-loop slower",
    "dataset": "samples are simulated as ready in memory",
    "allgather_bucket_size": "updated weights are simulated as gathered in one piece",
}
# Sections and keys of torchtitan, DeepSpeed, accelerate and Trainer about starting, learning,
# measuring and saving.
_NAMES = """
job profiling metrics checkpoint lr_scheduler validation comm memory_estimation debug
tokenizer_path hf_assets_path lr min_lr beta1 beta2 eps weight_decay warmup_steps steps seed
gc_freq gc_debug deterministic print_after_conversion pipeline_parallel_schedule
disable_loss_parallel filter_fqns precompute_float8_dynamic_scale_for_fsdp
scheduler steps_per_print wall_clock_breakdown tensorboard wandb csv_monitor comet
flops_profiler comms_logger params loss_scale loss_scale_window initial_scale_power hysteresis
min_loss_scale dump_state contiguous_gradients pin_memory
compute_environment machine_rank main_training_function main_process_ip main_process_port
rdzv_backend same_network gpu_ids downcast_bf16 enable_cpu_affinity tpu_env tpu_use_cluster
tpu_use_sudo tpu_name tpu_zone commands command_file zero3_init_flag fsdp_state_dict_type
fsdp_sync_module_states fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_version
fsdp_transformer_layer_cls_to_wrap state_dict_type sync_module_states use_orig_params
cpu_ram_efficient_loading transformer_layer_cls_to_wrap learning_rate lr_scheduler_type
warmup_ratio num_train_epochs max_steps output_dir logging_steps save_steps save_strategy
eval_strategy evaluation_strategy report_to adam_beta1 adam_beta2 adam_epsilon
"""
_NO_PART = frozenset(_NAMES.split())
_OFF = ("", "no", "none", "false", "disabled")
_UNKNOWN = "not known here: where it changes a step, the prediction lacks that change"


def effect_of(path: str, value: object) -> str:
    """Return the effect of ignoring the key at ``path`` on the prediction of a step."""
    if not value or value in _OFF:
        return "switched off or empty"
    section, name = path.split(".", maxsplit=1)[0], path.rpartition(".")[2]
    if name in _EFFECTS:
        return _EFFECTS[name]
    return "no part of a simulated step" if {section, name} & _NO_PART else _UNKNOWN
