// A revision of a commit that was built before reuses the output: with real git and the process engine.
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
  const nothing = { onChange: () => {}, log: () => {}, onLinkExpired: () => {} }
  builds = new Builds({ home, engine, networks: LOOPBACK_NETWORKS, ...nothing })
})
afterEach(async () => {
  await builds.close()
  await git.stop()
  fs.rmSync(home, { recursive: true, force: true })
})

const next = (): RevisionRef => ({ deployment_id, revision_id: randomUUID() })
const push = (text: string) => git.push({ 'package.json': '{}', 'server.js': '', 'a.txt': text })
async function built(
  commit_sha: string | null,
  more: Partial<BuildSource> = {},
  secrets = {},
  ref = next(),
  serving: string | null = null,
) {
  const origin = { archive: null, template_id: null, platform_config_path: null, install_command: null }
  const from = { url: git.url, ref: 'main', commit_sha, credential: async () => null }
  builds.start(
    makeUnit(ref, { secrets }),
    { ...origin, git: from, build_command: 'echo built > out', ...more },
    serving,
  )
  const made = (await waitFor(() => !builds.isBuilding(ref) && builds.readRecord(ref))) as BuildRecord
  if (made.state !== 'built') throw new Error(made.reason)
  const { location, commit } = made.artifact
  return { ref, sha: commit!.sha, location, text: fs.readFileSync(join(location, 'a.txt'), 'utf8') }
}

test('a revision of a commit that was built before needs neither git nor a build', async () => {
  push('one')
  const one = await built(null)
  push('two')
  const two = await built(null)
  await builds.forget(one.ref)
  expect(builds.revisions(deployment_id)).toEqual([two.ref.revision_id])
  await git.stop()
  const back = await built(one.sha)
  expect(back).toMatchObject({ location: one.location, text: 'one', sha: one.sha })
  await builds.forget(two.ref)
  await builds.forget(back.ref)
  // Also by the one that it was made for, and by the next agent.
  await builds.open()
  expect(await built(one.sha, {}, {}, one.ref)).toMatchObject({ location: one.location })
  expect(builds.revisions(deployment_id)).toEqual([one.ref.revision_id])
  git = await startGitServer()
})

test('the files of a static site are retained without their tree, also for their own revision', async () => {
  const engine = new ProcessEngine({ home, port: 0 })
  const prepare = engine.prepare.bind(engine)
  engine.prepare = (spec, tree, task) => prepare(spec, { ...tree!, site: { folder: '.', fallback: null } }, task)
  await builds.close()
  const nothing = { onChange: () => {}, log: () => {}, onLinkExpired: () => {} }
  builds = new Builds({ home, engine, networks: LOOPBACK_NETWORKS, ...nothing })
  const ref = next()
  const source = { archive: null, template_id: null, platform_config_path: null, install_command: null }
  const build = async (revision: RevisionRef) => {
    const git_source = { url: git.url, ref: 'main', commit_sha: sha, credential: async () => null }
    builds.start(makeUnit(revision), { ...source, git: git_source, build_command: 'echo built > out' })
    const record = (await waitFor(() => !builds.isBuilding(revision) && builds.readRecord(revision))) as BuildRecord
    if (record.state !== 'built') throw new Error(record.reason)
    return record.artifact
  }
  const sha = push('one')
  const first = await build(ref)
  expect(fs.readdirSync(dirname(first.location)).sort()).toEqual(['record.json', 'site'])
  await builds.forget(ref)
  const other = next()
  expect((await build(other)).location).toBe(first.location)
  await builds.forget(other)
  expect(await build(ref)).toEqual(first)
  expect(fs.existsSync(join(first.location, 'manifest.json'))).toBe(true)
})

test('a branch, changed commands and changed secrets are built again', async () => {
  const sha = push('one')
  const one = await built(null)
  await builds.forget(one.ref)
  for (const other of [
    await built(null),
    await built(sha, { build_command: 'echo other > out' }),
    await built(sha, {}, { TOKEN: 'hush' }),
  ])
    expect(other.location).not.toBe(one.location)
})

test('an output that was modified is built again', async () => {
  const sha = push('one')
  const one = await built(sha)
  await builds.forget(one.ref)
  const again = await built(sha)
  expect(again.location).toBe(one.location)
  await builds.forget(again.ref)
  fs.writeFileSync(join(one.location, 'out'), 'later')
  expect((await built(sha)).location).not.toBe(one.location)
  expect(fs.existsSync(one.location)).toBe(false)
})

test('the output of the serving revision is not reused, that of its predecessor is', async () => {
  const sha = push('one')
  const one = await built(sha)
  const serving = await built(push('two'))
  expect((await built(serving.sha, {}, {}, next(), serving.ref.revision_id)).location).not.toBe(serving.location)
  const back = await built(sha, {}, {}, next(), serving.ref.revision_id)
  expect(back.location).toBe(one.location)
  await builds.forget(one.ref)
  expect(fs.existsSync(one.location)).toBe(true)
})

test('an output that could not be started is not reused', async () => {
  const sha = push('one')
  const one = await built(sha)
  await builds.forget(one.ref)
  const again = await built(sha)
  builds.giveUp(again.ref, 'It crashed.')
  await builds.forget(again.ref)
  expect((await built(sha)).location).not.toBe(one.location)
})

test('the three newest outputs and those in use are retained, until the deployment is deleted', async () => {
  const all = []
  for (const text of ['1', '2', '3', '4', '5']) all.push(await built(push(text)))
  await builds.forget(all[0]!.ref)
  const back = await built(all[0]!.sha)
  for (const { ref } of all.slice(1)) await builds.forget(ref)
  const left = all.map(({ location }) => fs.existsSync(dirname(location)))
  expect(left).toEqual([true, false, true, true, true])
  expect(back.location).toBe(all[0]!.location)
  await builds.remove(deployment_id)
  expect(builds.hasFiles(deployment_id)).toBe(false)
})
