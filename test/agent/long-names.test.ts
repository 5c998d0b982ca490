// A name that is too long for the file system fails the build. The message contains no folder of the machine.
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

const LONG_NAME = 'n'.repeat(300)
const DEEP_FOLDER = 'deep/'.repeat(60)

let home: string
let control: ControlPlane
let git: GitServer
let archiveOrigin: string
const archives = new Map<string, Buffer>()
const archiveServer = createServer((req, res) => void res.end(archives.get(req.url!)))

beforeAll(async () => {
  home = fs.realpathSync(makeTempFolder())
  ;[control, git] = await Promise.all([startControlPlane(), startGitServer()])
  git.push({ 'package.json': '{"scripts":{"start":"true"}}' })
  await once(archiveServer.listen(0, '127.0.0.1'), 'listening')
  archiveOrigin = `http://127.0.0.1:${(archiveServer.address() as AddressInfo).port}`
  const agentHome = join(home, 'agent')
  const engine = new ProcessEngine({ home: agentHome, port: 0, limits: FAST_LIMITS })
  const options = {
    agent_id: 'one',
    version: 'test',
    home: agentHome,
    wait: 5,
    retry: 50,
    networks: LOOPBACK_NETWORKS,
    logToOperator: () => {},
  }
  runAgent(new Agent({ ...options, engine, control: createControlPlaneClient({ url: control.url, key: 'key' }) }))
})
afterAll(async () => {
  await closeAgents()
  archiveServer.close()
  await Promise.all([control.stop(), git.stop()])
  fs.rmSync(home, { recursive: true, force: true })
})

async function publishArchive(name: string, type: 'file' | 'directory' | 'symlink' = 'file') {
  const entry = { header: { name, size: 0, type, ...(type === 'symlink' && { linkname: LONG_NAME.repeat(20) }) } }
  const file = gzipSync(await packTar([entry]))
  const path = `/${randomUUID()}`
  archives.set(path, file)
  const sha256 = createHash('sha256').update(file).digest('hex')
  return { source: 'internal_source' as const, archive: { url: archiveOrigin + path, sha256, size: file.byteLength } }
}
const repository = (more = {}) => ({
  source: 'githost' as const,
  git: { url: git.url, ref: 'main', commit_sha: null, ...more },
})

test.each<[string, () => Promise<Partial<RevisionWork>> | Partial<RevisionWork>]>([
  ['the name of a file in an archive', () => publishArchive(LONG_NAME)],
  ['the name of a folder in an archive', () => publishArchive(`${LONG_NAME}/`, 'directory')],
  ['the name of a folder with a file in an archive', () => publishArchive(`${LONG_NAME}/file`)],
  ['a path in an archive', () => publishArchive(`${'n'.repeat(100)}/`.repeat(60))],
  ['the target of a link in an archive', () => publishArchive('link', 'symlink')],
  ['platform_config_path', () => ({ ...repository(), platform_config_path: LONG_NAME })],
  [
    'platform_config_path with many folders',
    () => ({ ...repository(), platform_config_path: `${DEEP_FOLDER}${LONG_NAME}` }),
  ],
  ['repo_ref', () => repository({ ref: LONG_NAME.repeat(6) })],
  ['template_id', () => ({ source: 'internal_template', template_id: LONG_NAME.repeat(10) })],
  ['a file name in build_command', () => ({ ...repository(), build_command: `cat ${LONG_NAME}` })],
  [
    'build_command, longer than an argument of a process,',
    () => ({ ...repository(), build_command: 'x'.repeat(200_000) }),
  ],
])('%s that is too long fails the build without naming a folder of the machine', async (_, makeRevision) => {
  const id = randomUUID()
  const revision = control.want(id, await makeRevision())
  const report = await waitFor(() =>
    control.reports.find(({ revision_id, state }) => revision_id === revision && state === 'failed'),
  )
  const lines = control.logs.filter(({ of }) => of === revision).map(({ message }) => message)
  const texts = [report.message, ...lines].join('\n')
  expect(report.message!.length).toBeGreaterThan(20)
  for (const folder of [home, home.slice(1), process.cwd()]) expect(texts).not.toContain(folder)
  expect(texts).not.toMatch(/\bE[A-Z]{3,}\b: /)
  control.wantAbsent(id)
})
