// Names that are too long for this machine's disk fail a build in a sentence that names no folder of the machine.
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { packTar } from 'modern-tar'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import type { RevisionWork } from '../../src/protocol/work.schema.ts'
import { waitFor } from '../support/commands.ts'
import { type ControlPlane, startControlPlane } from '../support/fake-control-plane.ts'
import { type GitServer, startGitServer } from '../support/git-server.ts'
import { closeAgents, FAST_LIMITS, LOOPBACK_NETWORKS, makeTempFolder, runAgent } from '../support/process-engine.ts'

const LONG = 'n'.repeat(300)
const DEEP = 'deep/'.repeat(60)

let home: string
let control: ControlPlane
let git: GitServer
let archives: string
const files = new Map<string, Buffer>()
const server = createServer((req, res) => void res.end(files.get(req.url!)))

beforeAll(async () => {
  home = fs.realpathSync(makeTempFolder())
  ;[control, git] = await Promise.all([startControlPlane(), startGitServer()])
  git.push({ 'package.json': '{"scripts":{"start":"true"}}' })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  archives = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const at = join(home, 'agent')
  const engine = new ProcessEngine({ home: at, port: 0, limits: FAST_LIMITS })
  const options = {
    agent_id: 'one',
    version: 'test',
    home: at,
    wait: 5,
    retry: 50,
    networks: LOOPBACK_NETWORKS,
    logToOperator: () => {},
  }
  runAgent(new Agent({ ...options, engine, control: createControlPlaneClient({ url: control.url, key: 'key' }) }))
})
afterAll(async () => {
  await closeAgents()
  server.close()
  await Promise.all([control.stop(), git.stop()])
  fs.rmSync(home, { recursive: true, force: true })
})

async function archiveOf(name: string, type: 'file' | 'directory' | 'symlink' = 'file') {
  const entry = { header: { name, size: 0, type, ...(type === 'symlink' && { linkname: LONG.repeat(20) }) } }
  const file = gzipSync(await packTar([entry]))
  const path = `/${randomUUID()}`
  files.set(path, file)
  const sha256 = createHash('sha256').update(file).digest('hex')
  return { source: 'internal_source' as const, archive: { url: archives + path, sha256, size: file.byteLength } }
}
const repository = (more = {}) => ({
  source: 'githost' as const,
  git: { url: git.url, ref: 'main', commit_sha: null, ...more },
})

test.each<[string, () => Promise<Partial<RevisionWork>> | Partial<RevisionWork>]>([
  ['a file of an archive', () => archiveOf(LONG)],
  ['a folder of an archive', () => archiveOf(`${LONG}/`, 'directory')],
  ['a file in a folder of an archive', () => archiveOf(`${LONG}/file`)],
  ['a path of an archive', () => archiveOf(`${'n'.repeat(100)}/`.repeat(60))],
  ['what a link of an archive leads to', () => archiveOf('link', 'symlink')],
  ['platform_config_path', () => ({ ...repository(), platform_config_path: LONG })],
  ['platform_config_path below folders', () => ({ ...repository(), platform_config_path: `${DEEP}${LONG}` })],
  ['repo_ref', () => repository({ ref: LONG.repeat(6) })],
  ['template_id', () => ({ source: 'internal_template', template_id: LONG.repeat(10) })],
  ['build_command', () => ({ ...repository(), build_command: `cat ${LONG}` })],
  ['build_command that no process can be given', () => ({ ...repository(), build_command: 'x'.repeat(200_000) })],
])('%s', async (_, wanted) => {
  const id = randomUUID()
  const revision = control.want(id, await wanted())
  const report = await waitFor(() =>
    control.reports.find(one => one.revision_id === revision && one.state === 'failed'),
  )
  const lines = control.logs.filter(({ of }) => of === revision).map(({ message }) => message)
  const told = [report.message, ...lines].join('\n')
  expect(report.message!.length).toBeGreaterThan(20)
  for (const place of [home, home.slice(1), process.cwd()]) expect(told).not.toContain(place)
  expect(told).not.toMatch(/\bE[A-Z]{3,}\b: /)
  control.wantAbsent(id)
})
