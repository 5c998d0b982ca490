// Amounts as Kubernetes writes them: of processors and of memory.
export const MIB = 1024 * 1024

const MEMORY_UNITS: Record<string, number> = {
  ...{ '': 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12 },
  ...{ Ki: 1024, Mi: MIB, Gi: 1024 * MIB, Ti: 1024 * 1024 * MIB },
}

/** In processors: `0.5`, `"0.5"`, `"500m"`; not a number where it is none. */
export function parseCpu(value: unknown): number {
  const [, amount, milli] = /^(\d+(?:\.\d+)?)(m?)$/.exec(String(value)) ?? []
  return amount === undefined ? Number.NaN : Number(amount) / (milli ? 1000 : 1)
}

/** In bytes: `1048576`, `"64Mi"`, `"1.5G"`; not a number where it is none. */
export function parseMemory(value: unknown): number {
  const [, amount, unit = ''] = /^(\d+(?:\.\d+)?)([A-Za-z]*)$/.exec(String(value)) ?? []
  const factor = MEMORY_UNITS[unit]
  return amount === undefined || factor === undefined ? Number.NaN : Math.round(Number(amount) * factor)
}
