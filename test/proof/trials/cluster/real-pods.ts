// A namespace whose pods really run, from images of a registry on this machine, and the settings of an agent for it.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { BACKUP_OF_LABEL } from '../../../../src/agent/engines/kubernetes/names.ts'
import { startPodman } from '../../../support/podman.ts'
import { pushImages } from '../whole-application/images.ts'
import { createAgentAccount } from './agent-account.ts'
import type { Kubernetes } from './kubernetes.ts'
import { createRestrictedNamespace, DYNAMIC_CLASS } from './nodes.ts'
import type { Objects } from './objects.ts'
import { createImageFinder, pushDatabaseImage } from './pod-images.ts'
import { PodNetwork } from './pod-network.ts'
import { PodRunner } from './run-pods.ts'
import { playSnapshotDriver } from './snapshot-driver.ts'

/** Besides those of `findMissingForPods`. */
export const IMAGE_PROGRAMS = ['docker-registry', 'busybox', 'debootstrap']

/** `base`: an image of Debian with Python, Postgres and Redis. */
export async function startRealPods(
  cleanup: AsyncDisposableStack,
  kubernetes: Kubernetes,
  cluster: Objects,
  namespace: string,
) {
  const folder = join(kubernetes.folder, namespace)
  fs.mkdirSync(folder)
  const podman = await startPodman()
  cleanup.defer(() => podman.stop())
  const { base } = await pushImages(podman)
  const database = await pushDatabaseImage(podman, base)
  const network = new PodNetwork()
  network.open()
  cleanup.defer(() => network.close())
  const findImage = createImageFinder(cleanup)
  await findImage(database)
  const runner = new PodRunner({ cluster, network, folder, findImage })
  cleanup.defer(() => runner.close())
  await runner.open()
  await createRestrictedNamespace(cluster, namespace, 'runner')
  const { config } = await createAgentAccount(kubernetes, cluster, [namespace])
  const playing = playSnapshotDriver(cluster, BACKUP_OF_LABEL, folder)
  cleanup.defer(() => playing.stop())
  const settings = {
    KUBECONFIG: config,
    K8S_NAMESPACES: namespace,
    K8S_STORAGE_CLASS: DYNAMIC_CLASS,
    K8S_SNAPSHOT_CLASS: 'trial',
    K8S_DRAIN_SECONDS: '2',
    K8S_POSTGRES_IMAGE: database,
    K8S_HTTP_REGISTRIES: podman.registry,
  }
  return { folder, podman, base, runner, settings }
}
