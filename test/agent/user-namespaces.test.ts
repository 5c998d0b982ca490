// The program that runs a program without user namespaces: what it refuses, and what it leaves as it is.
import { spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { allowUserNamespaces, buildLauncher, denyUserNamespaces } from '../../src/agent/system/user-namespaces.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const canTest = process.platform === 'linux' && process.arch === 'x64' && process.getuid?.() === 0
const user = { uid: 1_900_000_001, gid: 1_900_000_001 }

describe.runIf(canTest)('a program without user namespaces', () => {
  let folder: string
  let launcher: string
  beforeAll(() => {
    folder = makeTempFolder()
    fs.chmodSync(folder, 0o755)
    launcher = join(folder, 'launcher')
    fs.writeFileSync(launcher, buildLauncher())
    fs.chmodSync(launcher, 0o755)
  })
  afterAll(() => {
    allowUserNamespaces()
    fs.rmSync(folder, { recursive: true, force: true })
  })
  const run = (...[program, ...args]: string[]) => {
    const options = { ...user, cwd: '/', env: { NOTE: 'kept' }, encoding: 'utf8' as const }
    const { status, stdout, stderr } = spawnSync(program!, args, options)
    return { status, out: stdout.trim(), err: stderr.trim() }
  }

  test('gets its arguments and environment, and all it starts is confined like itself', () => {
    const script = 'echo "$1 $NOTE"; sh -c "grep -E \'^(Seccomp|NoNewPrivs):\' /proc/self/status"'
    const { status, out } = run(launcher, '/bin/sh', '-c', script, 'sh', 'given')
    expect([status, ...out.split('\n')]).toEqual([0, 'given kept', 'NoNewPrivs:\t1', 'Seccomp:\t2'])
  })

  test('may unshare nothing that needs a user namespace', () => {
    const command = ['/usr/bin/unshare', '--user', '/bin/true']
    expect(run(...command).status).toBe(0)
    const { status, err } = run(launcher, ...command)
    expect(status).toBe(1)
    expect(err).toContain('not permitted')
  })

  test('runs threads and child processes', () => {
    const script = `
      new (require('worker_threads').Worker)('process.stdout.write("thread")', { eval: true }).on('exit', () =>
        process.stdout.write(require('child_process').execFileSync('/bin/echo', [' child']).toString()))`
    expect(run(launcher, process.execPath, '-e', script).out).toBe('thread child')
  })

  test('ends with 126 if it cannot be run, or cannot be confined', () => {
    expect(run(launcher, '/nowhere').status).toBe(126)
    // A process can have filters of 32,768 instructions together.
    expect(run(...Array<string>(1000).fill(launcher), '/bin/true').status).toBe(126)
  })

  test('is how applications run, also if the folder has an older one', () => {
    fs.writeFileSync(join(folder, 'without-user-namespaces'), 'old')
    expect(denyUserNamespaces(folder, user)).toBeUndefined()
    expect(fs.readFileSync(join(folder, 'without-user-namespaces'))).toEqual(buildLauncher())
  })
})
