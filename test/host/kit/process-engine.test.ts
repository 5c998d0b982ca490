// The protocol kit with the project's agent and its process engine.
import { test } from 'vitest'
import { expectKitPasses } from '../../support/protocol-kit.ts'

test(
  "the project's agent passes with the process engine",
  () => expectKitPasses('src/agent/main.ts', '--stop'),
  600_000,
)
