// Our agent passes the kit with an engine that runs nothing.
import { it } from 'vitest'
import { passesKit } from '../../support/kit.ts'

it('passes', () => passesKit('protocol-kit/our-agent.ts'), 600_000)
