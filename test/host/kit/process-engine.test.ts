// Our agent passes the kit with the process engine.
import { it } from 'vitest'
import { passesKit } from '../../support/kit.ts'

it('passes', () => passesKit('src/agent/main.ts', '--stop'), 600_000)
