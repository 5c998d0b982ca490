// Parses quantities of Kubernetes: CPU and memory. Pure.
export const MIB = 1024 ** 2

const FACTORS: Record<string, number> = {
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 1024,
  Mi: MIB,
  Gi: 1024 ** 3,
  Ti: 1024 ** 4,
  Pi: 1024 ** 5,
  Ei: 1024 ** 6,
}

/** Parses `0.5`, `"0.5"` or `"500m"` as CPUs; NaN if it is not a quantity. */
export function parseCpu(quantity: unknown): number {
  const [, amount, milli] = /^(\d+(?:\.\d+)?)(m?)$/.exec(String(quantity)) ?? []
  return amount === undefined ? Number.NaN : Number(amount) / (milli ? 1000 : 1)
}

const CPU_FACTORS: Record<string, number> = { n: 1e9, u: 1e6, m: 1e3, '': 1 }

/** Parses a measurement such as `"12345678n"` as CPUs; NaN if it is not a quantity. */
export function parseMeasuredCpu(quantity: unknown): number {
  const [, amount, unit = ''] = /^(\d+(?:\.\d+)?)([num]?)$/.exec(String(quantity)) ?? []
  return amount === undefined ? Number.NaN : Number(amount) / CPU_FACTORS[unit]!
}

/** Parses `1048576`, `"64Mi"` or `"1.5G"` as bytes; NaN if it is not a quantity. */
export function parseMemory(quantity: unknown): number {
  const [, amount, unit = ''] = /^(\d+(?:\.\d+)?)([A-Za-z]*)$/.exec(String(quantity)) ?? []
  const factor = FACTORS[unit]
  return amount === undefined || factor === undefined ? Number.NaN : Math.round(Number(amount) * factor)
}
