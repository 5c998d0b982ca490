// A Podman for one test that plays the objects of a cluster. Its images are made from busybox.
import { execFile } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { KubernetesObject, V1PodSpec, V1Secret, V1StatefulSet } from '@kubernetes/client-node'
import { serializeObject } from './kubernetes-fixtures.ts'
import { CONTAINERS_CONFIG } from './podman.ts'

const execute = promisify(execFile)
const PAUSE_IMAGE = 'localhost/pause:1'
export const APPLICATION_IMAGE = 'localhost/shop:1'
export const STORE_IMAGE = 'localhost/store:1'

/** With a pause image that needs no other package. */
const PLAY_CONF = `${CONTAINERS_CONFIG}infra_image = "${PAUSE_IMAGE}"
`
const BUSYBOX_DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
RUN mkdir -p /www /tmp /data && chmod 777 /www /tmp /data && echo well > /www/health
`
const DOCKERFILES = {
  [PAUSE_IMAGE]: `${BUSYBOX_DOCKERFILE}ENTRYPOINT ["/bin/busybox", "sleep", "1000000"]\n`,
  [APPLICATION_IMAGE]: `${BUSYBOX_DOCKERFILE}USER 1000\nCMD ["/bin/sh", "-c", "exec httpd -f -p $PORT -h /www"]\n`,
  // Stands in for a store's image: it records its arguments and answers pg_isready.
  [STORE_IMAGE]: `${BUSYBOX_DOCKERFILE}RUN printf '#!/bin/sh\\ntest -f $PGDATA/arguments\\n' > /bin/pg_isready
RUN printf '#!/bin/sh\\nmkdir -p $PGDATA; echo "$@" >> $PGDATA/arguments; exec sleep 1000000\\n' > /bin/store
RUN chmod +x /bin/pg_isready /bin/store
ENTRYPOINT ["/bin/store"]\n`,
}

export type PodmanPlay = Awaited<ReturnType<typeof startPodmanPlay>>

export async function startPodmanPlay() {
  const root = fs.mkdtempSync(join(tmpdir(), 'slipway-play-'))
  fs.writeFileSync(join(root, 'containers.conf'), PLAY_CONF)
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: root,
    CONTAINERS_CONF: join(root, 'containers.conf'),
    XDG_RUNTIME_DIR: process.env.XDG_RUNTIME_DIR ?? root,
  }
  const own = ['--root', join(root, 'root'), '--runroot', join(root, 'run'), '--network-config-dir', join(root, 'net')]
  const podman = async (...args: string[]) => (await execute('podman', [...own, ...args], { env })).stdout.trim()

  fs.copyFileSync('/bin/busybox', join(root, 'busybox'))
  for (const [image, text] of Object.entries(DOCKERFILES)) {
    fs.writeFileSync(join(root, 'Containerfile'), text)
    await podman('build', '--quiet', '--tag', image, '--file', join(root, 'Containerfile'), root)
  }
  const [major, minor] = (await podman('version', '--format', '{{.Client.Version}}')).split('.').map(Number)
  /** Podman 4.3 reads variables from the data of a Secret alone, and mounts data without decoding it. */
  const canPlaySecrets = major! > 4 || (major === 4 && minor! >= 4)

  return {
    podman,
    async play(objects: KubernetesObject[]): Promise<void> {
      const mounted = new Set(objects.flatMap(listMountedSecrets))
      for (const object of objects.map(serializeObject)) {
        const file = join(root, 'object.json')
        const { kind, metadata } = object
        if (kind === 'Secret' && !canPlaySecrets) {
          const { data } = object as V1Secret
          fs.writeFileSync(file, JSON.stringify(mounted.has(metadata!.name!) ? { data: decode(data) } : data))
          await podman('secret', 'create', metadata!.name!, file)
        } else if (['Secret', 'PersistentVolumeClaim', 'Deployment', 'StatefulSet'].includes(kind!)) {
          fs.writeFileSync(file, JSON.stringify(toPlayable(object)))
          await podman('kube', 'play', file)
        }
      }
    },
    inside: (container: string, command: string) => podman('exec', container, '/bin/sh', '-c', command),
    async clear(): Promise<void> {
      // The first process of a container ignores TERM unless it handles it, and Podman would wait.
      await podman('kill', '--all').catch(() => {})
      await podman('pod', 'rm', '--all', '--force', '--time', '0')
      await podman('secret', 'rm', '--all')
      await podman('volume', 'rm', '--all', '--force')
    },
    async stop(): Promise<void> {
      await podman('pod', 'rm', '--all', '--force', '--time', '0').catch(() => {})
      const mounts = fs.readFileSync('/proc/mounts', 'utf8').split('\n')
      for (const at of mounts
        .map(line => line.split(' ')[1] ?? '')
        .filter(at => at.startsWith(`${root}/`))
        .reverse())
        await execute('umount', ['--lazy', at]).catch(() => {})
      await fs.promises
        .rm(root, { recursive: true, force: true })
        .catch(() => execute('podman', ['unshare', 'rm', '-rf', root], { env }))
    },
  }
}

const decode = (data: V1Secret['data'] = {}) =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]))

const listMountedSecrets = (object: KubernetesObject) =>
  ((object as V1StatefulSet).spec?.template?.spec?.volumes ?? []).flatMap(({ secret }) => secret?.secretName ?? [])

/** Podman does not play a StatefulSet, but its pod. The images exist only locally. */
function toPlayable(object: KubernetesObject): object {
  const template = (object as V1StatefulSet).spec?.template
  if (!template) return object
  const local = (containers: V1PodSpec['containers'] | undefined) =>
    containers?.map(container => ({ ...container, imagePullPolicy: 'Never' }))
  const { containers, initContainers, volumes, ...rest } = template.spec!
  const spec = {
    ...rest,
    // Podman 4.3 never mounts an optional Secret.
    volumes: volumes?.map(one => (one.secret ? { ...one, secret: { ...one.secret, optional: false } } : one)),
    containers: local(containers),
    ...(initContainers && { initContainers: local(initContainers) }),
  }
  // Without this annotation Podman 4.3 removes an init container before it has seen it end.
  const annotations = { 'io.podman.annotations.init.container.type': 'always' }
  const metadata = { ...template.metadata, annotations, name: object.metadata!.name }
  return object.kind === 'StatefulSet'
    ? { apiVersion: 'v1', kind: 'Pod', metadata, spec }
    : { ...object, metadata, spec: { ...(object as V1StatefulSet).spec, template: { metadata, spec } } }
}
