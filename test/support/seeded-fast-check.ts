// fast-check with the seed of the run.
import { configureGlobal } from 'fast-check'
import { inject } from 'vitest'

/** `requests` is how many hostile requests a file sends in total. */
export const { seed, requests } = inject('fuzz')
configureGlobal({ seed })

export * from 'fast-check'
