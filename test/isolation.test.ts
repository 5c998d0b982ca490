import { describeIsolation } from './support/isolation-suite.ts'

describeIsolation('gateway')
