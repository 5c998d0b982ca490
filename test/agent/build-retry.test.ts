// A build that fails for a temporary reason is not recorded as failed, and is retried.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { BuildRetries } from '../../src/agent/builds/build-retries.ts'
import { Builds } from '../../src/agent/builds/builds.ts'
import { type Artifact, type Engine, type SourceTree, TransientError } from '../../src/agent/engine.ts'
import { waitFor } from '../support/commands.ts'
import { startGitServer } from '../support/git-server.ts'
import { LOOPBACK_NETWORKS, makeTempFolder, makeUnit } from '../support/process-engine.ts'

const NO_SOURCE = {
  git: null,
  archive: null,
  template_id: null,
  platform_config_path: null,
  install_command: null,
  build_command: null,
}

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

test('a build whose git host is away is retried, and one that it refuses fails with the host’s words', async () => {
  const server = await startGitServer()
  onTestFinished(() => server.stop())
  const sha = server.push({ 'package.json': '{}' })
  const lines: string[] = []
  const engine = { prepare: async (_: unknown, files: SourceTree) => ({ ...artifact, commit: files.commit }) }
  const builds = new Builds({
    home,
    engine: engine as unknown as Engine,
    retry_ms: 0,
    networks: LOOPBACK_NETWORKS,
    onChange() {},
    onLinkExpired() {},
    log: (_, message, level) => lines.push(`${level} ${message}`),
  })
  const { url } = server
  const build = async () => {
    const unit = makeUnit({ deployment_id: randomUUID(), revision_id: randomUUID() })
    const git = { url, ref: sha, commit_sha: sha, credential: async () => null }
    for (let tries = 0; tries < 9 && !builds.readRecord(unit); tries++) {
      builds.start(unit, { ...NO_SOURCE, git })
      await waitFor(() => !builds.isBuilding(unit))
    }
    return builds.readRecord(unit)
  }
  server.failures.push([502, ''], [503, ''])
  const away = await build()
  expect(lines.filter(line => line.endsWith('The build is retried.'))).toEqual([
    `WARNING The host of ${url} answers 502. The build is retried.`,
    `WARNING The host of ${url} answers 503. The build is retried.`,
  ])
  expect(away).toMatchObject({ state: 'built', artifact: { commit: { sha } } })
  server.failures.push([403, 'required=[read:repository]'])
  expect(await build()).toMatchObject({
    state: 'broken',
    reason: expect.stringContaining('required=[read:repository]'),
  })
})

test('the pauses between tries double up to a minute, and a source that stays away is given up', () => {
  let now = 0
  const retries = new BuildRetries(() => now)
  expect(retries.exhausted('a')).toBeNull()
  expect(Array.from({ length: 6 }, () => retries.nextPause('a') / 1000)).toEqual([5, 10, 20, 40, 60, 60])
  now = 21 * 60_000
  expect(retries.exhausted('a')).not.toBeNull()
  expect(retries.exhausted('b')).toBeNull()
})
