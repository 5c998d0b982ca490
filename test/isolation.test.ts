import { describe } from 'vitest'
import { describeIsolation } from './support/isolation-suite.ts'

describeIsolation({ through: 'gateway' })
describe('callers whom access policies limit', () => describeIsolation({ through: 'gateway', policiesFor: 0 }))
