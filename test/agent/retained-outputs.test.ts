// A new revision of a commit that was already built reuses the build output: with real git and the process engine.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type BuildRecord, Builds } from '../../src/agent/builds/builds.ts'
import type { BuildSource } from '../../src/agent/builds/source-tree.ts'
import type { RevisionRef } from '../../src/agent/engine.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import { waitFor } from '../support/commands.ts'
import { type GitServer, startGitServer } from '../support/git-server.ts'
import { LOOPBACK_NETWORKS, makeTempFolder, makeUnit } from '../support/process-engine.ts'

let home: string
let git: GitServer
let builds: Builds
const deployment_id = randomUUID()
beforeEach(async () => {
  home = makeTempFolder()
  git = await startGitServer()
  const engine = new ProcessEngine({ home, port: 0 })
  const events = { onChange: () => {}, log: () => {}, onLinkExpired: () => {} }
  builds = new Builds({ home, engine, networks: LOOPBACK_NETWORKS, ...events })
})
afterEach(async () => {
  await builds.close()
  await git.stop()
  fs.rmSync(home, { recursive: true, force: true })
})

const newRevision = (): RevisionRef => ({ deployment_id, revision_id: randomUUID() })
const push = (text: string) => git.push({ 'package.json': '{}', 'server.js': '', 'a.txt': text })
async function build(
  commit_sha: string | null,
  more: Partial<BuildSource> = {},
  secrets = {},
  ref = newRevision(),
  serving: string | null = null,
) {
  const source = { archive: null, template_id: null, platform_config_path: null, install_command: null }
  const repository = { url: git.url, ref: 'main', commit_sha, credential: async () => null }
  builds.start(
    makeUnit(ref, { secrets }),
    { ...source, git: repository, build_command: 'echo built > out', ...more },
    serving,
  )
  const record = (await waitFor(() => !builds.isBuilding(ref) && builds.readRecord(ref))) as BuildRecord
  if (record.state !== 'built') throw new Error(record.reason)
  const { location, commit } = record.artifact
  return { ref, sha: commit!.sha, location, text: fs.readFileSync(join(location, 'a.txt'), 'utf8') }
}

test('a revision of a commit that was already built needs neither git nor a build', async () => {
  push('one')
  const one = await build(null)
  push('two')
  const two = await build(null)
  await builds.forget(one.ref)
  expect(builds.revisions(deployment_id)).toEqual([two.ref.revision_id])
  await git.stop()
  const rollback = await build(one.sha)
  expect(rollback).toMatchObject({ location: one.location, text: 'one', sha: one.sha })
  await builds.forget(two.ref)
  await builds.forget(rollback.ref)
  // A restarted agent, and the revision whose build created the output.
  await builds.open()
  expect(await build(one.sha, {}, {}, one.ref)).toMatchObject({ location: one.location })
  expect(builds.revisions(deployment_id)).toEqual([one.ref.revision_id])
  git = await startGitServer()
})

test('a revision of a branch, with another command or with other secrets is built again', async () => {
  const sha = push('one')
  const one = await build(null)
  await builds.forget(one.ref)
  for (const rebuilt of [
    await build(null),
    await build(sha, { build_command: 'echo other > out' }),
    await build(sha, {}, { TOKEN: 'hush' }),
  ])
    expect(rebuilt.location).not.toBe(one.location)
})

test('a modified build output is deleted instead of reused', async () => {
  const sha = push('one')
  const one = await build(sha)
  await builds.forget(one.ref)
  const again = await build(sha)
  expect(again.location).toBe(one.location)
  await builds.forget(again.ref)
  fs.writeFileSync(join(one.location, 'out'), 'later')
  expect((await build(sha)).location).not.toBe(one.location)
  expect(fs.existsSync(one.location)).toBe(false)
})

test('a revision reuses the output of an earlier revision, but not that of the serving one', async () => {
  const sha = push('one')
  const one = await build(sha)
  const serving = await build(push('two'))
  expect((await build(serving.sha, {}, {}, newRevision(), serving.ref.revision_id)).location).not.toBe(serving.location)
  const rollback = await build(sha, {}, {}, newRevision(), serving.ref.revision_id)
  expect(rollback.location).toBe(one.location)
  await builds.forget(one.ref)
  expect(fs.existsSync(one.location)).toBe(true)
})

test('the output of a revision that failed to start is not reused', async () => {
  const sha = push('one')
  const one = await build(sha)
  await builds.forget(one.ref)
  const again = await build(sha)
  builds.giveUp(again.ref, 'It crashed.')
  await builds.forget(again.ref)
  expect((await build(sha)).location).not.toBe(one.location)
})

test('the three newest build outputs and those in use are retained until the deployment is deleted', async () => {
  const all = []
  for (const text of ['1', '2', '3', '4', '5']) all.push(await build(push(text)))
  await builds.forget(all[0]!.ref)
  const rollback = await build(all[0]!.sha)
  for (const { ref } of all.slice(1)) await builds.forget(ref)
  const isRetained = all.map(({ location }) => fs.existsSync(dirname(location)))
  expect(isRetained).toEqual([true, false, true, true, true])
  expect(rollback.location).toBe(all[0]!.location)
  await builds.remove(deployment_id)
  expect(builds.hasFiles(deployment_id)).toBe(false)
})
