// Images for pods that really run: a Postgres as the official image is, and those of a registry of this machine.
import { execFile, execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Podman } from '../../../support/podman.ts'

const execute = promisify(execFile)
const STORAGE = 'containers-storage:'

/** Pods of a database run as the user of the official image, and without root. */
const ENTRYPOINT = `#!/bin/sh
set -e
if [ ! -f "$PGDATA/PG_VERSION" ]; then
  echo "$POSTGRES_PASSWORD" > /tmp/password
  initdb -D "$PGDATA" -U "$POSTGRES_USER" -A scram-sha-256 -E UTF8 --locale=C.UTF-8 --pwfile=/tmp/password
  echo "create database $POSTGRES_DB" | postgres --single -D "$PGDATA" postgres
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp "$@"
`

/** An application that answers anything, with the programs of Postgres beside it. */
const APPLICATION = 'trap exit TERM; python3 -m http.server $PORT --directory /var/empty & wait'

export const pushDatabaseImage = (podman: Podman, base: string): Promise<string> =>
  pushImage(podman, 'postgres-alone', [
    `FROM ${base}`,
    'RUN /usr/sbin/usermod --uid 999 postgres',
    'COPY entrypoint /entrypoint',
    'STOPSIGNAL SIGINT',
    'ENTRYPOINT ["/entrypoint"]',
  ])

export const pushApplicationImage = (podman: Podman, base: string): Promise<string> =>
  pushImage(podman, 'application', [
    `FROM ${base}`,
    'RUN mkdir -p /var/empty',
    'USER 1000',
    `CMD ${JSON.stringify(['/bin/sh', '-c', APPLICATION])}`,
  ])

async function pushImage({ podman, push, registry }: Podman, name: string, lines: string[]): Promise<string> {
  const context = fs.mkdtempSync(join(tmpdir(), 'slipway-pod-image-'))
  const image = `${registry}/${name}:1`
  try {
    fs.writeFileSync(join(context, 'entrypoint'), ENTRYPOINT, { mode: 0o755 })
    fs.writeFileSync(join(context, 'Dockerfile'), `${lines.join('\n')}\n`)
    await podman('build', '-t', image, context)
    await push(image)
  } finally {
    fs.rmSync(context, { recursive: true, force: true })
  }
  return image
}

/** The image of a pod in the store of this machine's Podman, which runs the pods. */
export function createImageFinder(cleanup: AsyncDisposableStack): (image: string) => Promise<string> {
  const known = new Map<string, { name: string; copied: Promise<unknown> }>()
  cleanup.defer(() => {
    for (const { name } of known.values()) execFileSync('podman', ['rmi', '--force', name], { stdio: 'ignore' })
  })
  let count = 0
  const copy = (image: string) => {
    const name = `localhost/slipway-pod-trial:${process.pid}-${count++}`
    const from = `docker://${image.replace(/:[^/:@]+@/, '@')}`
    return { name, copied: execute('skopeo', ['copy', '--quiet', '--src-tls-verify=false', from, `${STORAGE}${name}`]) }
  }
  return async image => {
    const found = known.get(image) ?? copy(image)
    known.set(image, found)
    await found.copied.catch((error: unknown) => {
      known.delete(image)
      throw error
    })
    return found.name
  }
}
