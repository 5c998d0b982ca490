// fast-check, where every property draws from the run's seed.
import { configureGlobal } from 'fast-check'
import { inject } from 'vitest'

export const { seed, each } = inject('fuzz')
configureGlobal({ seed })

export * from 'fast-check'
