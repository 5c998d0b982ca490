// Values of graphs in the words of the wire.

/** Messages are their data, with their type. */
export function toJson(value) {
  const text = JSON.stringify(value, function (key, converted) {
    const raw = this[key]
    if (typeof raw === 'bigint') return raw.toString()
    if (raw === null || typeof raw !== 'object') return converted
    if (typeof raw.toDict === 'function') {
      const { type, data } = raw.toDict()
      return { ...data, type }
    }
    if (raw instanceof Error) return toError(raw)
    if (raw instanceof Map) return Object.fromEntries(raw)
    if (raw instanceof Set) return [...raw]
    return converted
  })
  return text ?? 'null'
}

export const toError = error =>
  error instanceof Error
    ? { error: error.name, message: error.message }
    : { error: 'Error', message: typeof error === 'string' ? error : toJson(error) }

export function toCheckpoint(config) {
  const { thread_id, checkpoint_id, checkpoint_ns, checkpoint_map } = config?.configurable ?? {}
  if (!thread_id) return null
  return {
    thread_id,
    checkpoint_id: checkpoint_id ?? null,
    checkpoint_ns: checkpoint_ns ?? '',
    checkpoint_map: checkpoint_map ?? null,
  }
}
const toPlace = config => (config?.configurable?.checkpoint_id ? toCheckpoint(config) : null)

const withoutInternals = config => {
  if (!config?.configurable) return config
  const { callbacks: _, ...rest } = config
  const configurable = Object.entries(config.configurable).filter(([name]) => !name.startsWith('__'))
  return { ...rest, configurable: Object.fromEntries(configurable) }
}

/** The task of a debug event: its state is given as the place of a checkpoint. */
export function toTask(task) {
  if (!task?.state?.configurable?.thread_id) return task
  const { state, ...rest } = task
  return { ...rest, checkpoint: toCheckpoint(state) }
}

/** The payload of a debug event of a checkpoint. */
export function toDebugCheckpoint({ config, parentConfig, tasks, ...payload }) {
  return {
    ...payload,
    config: withoutInternals(config),
    parent_config: withoutInternals(parentConfig),
    checkpoint: toPlace(config),
    parent_checkpoint: toPlace(parentConfig),
    tasks: (tasks ?? []).map(toTask),
  }
}

export function toState(state) {
  return {
    values: state.values ?? {},
    next: [...state.next],
    tasks: state.tasks.map(task => ({
      id: task.id,
      name: task.name,
      path: task.path,
      error: task.error === undefined || task.error === null ? null : toError(task.error).message,
      interrupts: task.interrupts ?? [],
      checkpoint: task.state?.configurable ?? null,
      state: task.state && 'next' in task.state ? toState(task.state) : null,
      result: task.result ?? null,
    })),
    interrupts: state.tasks.flatMap(task => task.interrupts ?? []),
    metadata: state.metadata ?? {},
    created_at: state.createdAt ?? null,
    checkpoint: toPlace(state.config),
    parent_checkpoint: toPlace(state.parentConfig),
  }
}

/** The parts of a state that the server keeps in the row of the thread. */
export function toSummary(state) {
  const interrupted = state.tasks.filter(task => task.interrupts?.length > 0)
  return {
    values: toJson(state.values ?? {}),
    next: [...state.next],
    interrupts: Object.fromEntries(interrupted.map(task => [task.id, task.interrupts])),
  }
}
