// Images of Debian for the container engine, with Python, Postgres and Redis as the distribution has them: the official
// images cannot be reached everywhere. The Postgres one is started as the official image is.
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Podman } from '../../../support/podman.ts'
import { CACHE } from '../../support/trial.ts'

const SUITE = 'bookworm'
const BIN = '/usr/lib/postgresql/15/bin'
const PACKAGES = [
  'ca-certificates',
  'python3',
  'python3-pip',
  'python3-venv',
  'postgresql-15',
  'redis-server',
  'procps',
]
const LEFT_OUT = ['dev', 'var/cache/apt', 'var/lib/apt/lists', 'usr/share/doc', 'usr/share/man', 'usr/share/locale']
const IMPORTED = 'localhost/slipway-whole:1'
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'
const ENTRYPOINT = `#!/bin/sh
set -e
if [ ! -f "$PGDATA/PG_VERSION" ]; then
  rm -rf "$PGDATA.new" && mkdir -p "$PGDATA.new" && chown postgres "$PGDATA.new" && chmod 700 "$PGDATA.new"
  echo "$POSTGRES_PASSWORD" > /tmp/password && chown postgres /tmp/password
  setpriv --reuid postgres --regid postgres --clear-groups initdb -D "$PGDATA.new" -U "$POSTGRES_USER" \\
    -A scram-sha-256 --pwfile=/tmp/password
  rm /tmp/password
  echo "create database $POSTGRES_DB" |
    setpriv --reuid postgres --regid postgres --clear-groups postgres --single -D "$PGDATA.new" postgres
  echo 'host all all all scram-sha-256' >> "$PGDATA.new/pg_hba.conf"
  mv "$PGDATA.new" "$PGDATA"
fi
rm -f "$PGDATA/postmaster.pid"
exec setpriv --reuid postgres --regid postgres --clear-groups postgres -D "$PGDATA" -c listen_addresses='*' \\
  -c unix_socket_directories=/tmp "$@"
`

/** Pushes them to the registry of this Podman. Their files are made once, because that takes minutes. */
export async function pushImages({ podman, push, registry }: Podman): Promise<{ base: string; database: string }> {
  const archive = join(CACHE, `whole-application-${SUITE}.tar`)
  if (!existsSync(archive)) makeRoot(archive)
  const images = { base: `${registry}/debian:1`, database: `${registry}/postgres:1` }
  const context = mkdtempSync(join(tmpdir(), 'slipway-whole-image-'))
  try {
    writeFileSync(join(context, 'entrypoint'), ENTRYPOINT, { mode: 0o755 })
    const hasCertificates = existsSync(CERTIFICATES)
    // The machine may trust others besides, such as that of a proxy.
    if (hasCertificates) copyFileSync(CERTIFICATES, join(context, 'certificates'))
    const instructions = {
      base: `FROM ${IMPORTED}\nENV PATH=${BIN}:/usr/local/bin:/usr/bin:/bin\n`,
      database: `FROM ${images.base}\nCOPY entrypoint /entrypoint\nENTRYPOINT ["/entrypoint"]\n`,
    }
    if (hasCertificates) instructions.base += `COPY certificates ${CERTIFICATES}\n`
    await podman('import', archive, IMPORTED)
    for (const name of ['base', 'database'] as const) {
      writeFileSync(join(context, 'Dockerfile'), instructions[name])
      await podman('build', '-t', images[name], context)
      await push(images[name])
    }
  } finally {
    rmSync(context, { recursive: true, force: true })
  }
  return images
}

function makeRoot(archive: string): void {
  const folder = mkdtempSync(join(tmpdir(), 'slipway-whole-root-'))
  const [root, part] = [join(folder, 'root'), `${archive}.part`]
  const run = (program: string, ...args: string[]) => execFileSync(program, args, { stdio: 'pipe', maxBuffer: 1 << 26 })
  try {
    run('debootstrap', '--variant=minbase', `--include=${PACKAGES.join()}`, SUITE, root)
    run('tar', '-C', root, '-cf', part, ...LEFT_OUT.map(path => `--exclude=./${path}/*`), '.')
    renameSync(part, archive)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
