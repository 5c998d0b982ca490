// The environment variables that the platform sets.
const RESERVED_VARIABLES = ['PORT', 'PATH', 'DATABASE_URI', 'REDIS_URI']
const RESERVED_PREFIX = 'SLIPWAY_'

export const isReservedVariable = (name: string) =>
  RESERVED_VARIABLES.includes(name) || name.startsWith(RESERVED_PREFIX)
