// Our agent passes the kit with an engine that runs nothing.
import { it } from 'vitest'
import { expectKitPasses } from '../../support/protocol-kit.ts'

it('passes', () => expectKitPasses('protocol-kit/our-agent.ts'), 600_000)
