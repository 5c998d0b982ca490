// A build that fails for a temporary reason is not recorded as failed, and is retried.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Builds } from '../../src/agent/builds/builds.ts'
import { type Artifact, type Engine, TransientError } from '../../src/agent/engine.ts'
import { makeTempFolder, makeUnit } from '../support/process-engine.ts'

let home: string
beforeEach(() => {
  home = makeTempFolder()
})
afterEach(() => fs.rmSync(home, { recursive: true }))

const artifact: Artifact = { location: 'web@sha256:0', start_command: null, health_path: null, env: {}, commit: null }

test('a build that fails because the control plane is unavailable is not recorded, and can be retried', async () => {
  const failures = [new TransientError('The control plane is away.')]
  const engine = {
    async prepare() {
      const failure = failures.shift()
      if (failure) throw failure
      return artifact
    },
  } as unknown as Engine
  const lines: string[] = []
  let buildEnded = Promise.withResolvers<void>()
  const builds = new Builds({
    home,
    engine,
    retry_ms: 1,
    onChange: () => buildEnded.resolve(),
    onLinkExpired: () => {},
    log: (_, message, level) => lines.push(`${level} ${message}`),
  })
  const unit = makeUnit(
    { deployment_id: randomUUID(), revision_id: randomUUID() },
    { source: 'internal_container', image_uri: 'web:1' },
  )
  const source = { git: null, archive: null, template_id: null, platform_config_path: null }
  const build = async () => {
    buildEnded = Promise.withResolvers()
    builds.start(unit, { ...source, install_command: null, build_command: null })
    await buildEnded.promise
    return builds.readRecord(unit)
  }
  expect(await build()).toBeUndefined()
  expect(builds.revisions(unit.deployment_id)).toEqual([])
  expect(lines).toEqual(['WARNING The control plane is away. The build is retried.'])
  expect(await build()).toMatchObject({ state: 'built', artifact })
})
