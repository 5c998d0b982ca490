import { isolation } from './support/isolation.ts'

isolation('gateway')
