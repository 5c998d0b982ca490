// Our agent passes the kit with the process engine.
import { it } from 'vitest'
import { expectKitPasses } from '../../support/protocol-kit.ts'

it('passes', () => expectKitPasses('src/agent/main.ts', '--stop'), 600_000)
