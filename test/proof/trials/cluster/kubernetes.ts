// A Kubernetes control plane on this machine: etcd, API server, controllers, scheduler, and kwok, which plays the nodes
// and the pods on them. Everything ends with the trial.
import { type ChildProcess, spawn } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { dumpYaml, KubeConfig } from '@kubernetes/client-node'
import { findFreePort } from '../../../../src/postgres/free-port.ts'
import { PATIENCE_MS } from '../../support/trial.ts'

/** Services and pods have addresses of these networks, the first of which is this machine's. */
export const [POD_NETWORK, SERVICE_NETWORK] = ['10.213.0', '10.213.128']
export const KWOK_NODES = ['kwok-1', 'kwok-2']

export type Kubernetes = Awaited<ReturnType<typeof startKubernetes>>
type User = { name: string; groups: string[]; token: string }

export async function startKubernetes(programs: string, folder: string, stages: string) {
  const [etcdPort, etcdPeerPort, port, kubeletPort, controllerPort, schedulerPort] = await Promise.all(
    Array.from({ length: 6 }, () => findFreePort()),
  )
  const children: ChildProcess[] = []
  const run = (name: string, ...flags: string[]) => {
    const log = fs.openSync(join(folder, `${name}.log`), 'w')
    const child = spawn(join(programs, name), flags, { cwd: folder, stdio: ['ignore', log, log] })
    fs.closeSync(log)
    children.push(child)
    child.once('error', error => fs.appendFileSync(join(folder, `${name}.log`), String(error)))
  }
  const stop = async () => {
    // The programs that write end before what they write to.
    for (const child of children.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), 5000)
      await exited
      clearTimeout(timer)
    }
  }
  process.once('exit', () => {
    for (const child of children) child.kill('SIGKILL')
  })

  const user = (name: string, ...groups: string[]): User => ({ name, groups, token: randomBytes(16).toString('hex') })
  const admin = user('admin', 'system:masters')
  const controllers = user('system:kube-controller-manager')
  const scheduler = user('system:kube-scheduler')
  const users = [admin, controllers, scheduler]
  const path = (name: string) => join(folder, name)
  const tokens = users.map(({ name, groups, token }) => `${token},${name},${name},"${groups.join(',')}"`)
  fs.writeFileSync(path('tokens.csv'), `${tokens.join('\n')}\n`, { mode: 0o600 })
  const keys = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  })
  fs.writeFileSync(path('accounts.key'), keys.privateKey, { mode: 0o600 })
  fs.writeFileSync(path('accounts.pub'), keys.publicKey)

  const etcdUrl = `http://127.0.0.1:${etcdPort}`
  const etcdPeerUrl = `http://127.0.0.1:${etcdPeerPort}`
  run(
    'etcd',
    `--data-dir=${path('etcd')}`,
    `--listen-client-urls=${etcdUrl}`,
    `--advertise-client-urls=${etcdUrl}`,
    `--listen-peer-urls=${etcdPeerUrl}`,
    `--initial-advertise-peer-urls=${etcdPeerUrl}`,
    `--initial-cluster=default=${etcdPeerUrl}`,
    '--unsafe-no-fsync',
  )
  run(
    'kube-apiserver',
    `--etcd-servers=${etcdUrl}`,
    '--bind-address=127.0.0.1',
    `--secure-port=${port}`,
    `--advertise-address=${POD_NETWORK}.1`,
    '--endpoint-reconciler-type=none',
    // It makes itself a certificate there, for 127.0.0.1 and for its Service.
    `--cert-dir=${path('certificates')}`,
    `--service-cluster-ip-range=${SERVICE_NETWORK}.0/24`,
    '--authorization-mode=RBAC',
    `--token-auth-file=${path('tokens.csv')}`,
    '--anonymous-auth=false',
    `--service-account-key-file=${path('accounts.pub')}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-signing-key-file=${path('accounts.key')}`,
    // Pod security is among the plugins that are always on. This one binds a namespace to nodes.
    '--enable-admission-plugins=PodNodeSelector',
    '--kubelet-preferred-address-types=InternalIP',
  )
  const certificate = path('certificates/apiserver.crt')
  const answer = async () => {
    const config = configFor(admin.token)
    const headers = { Authorization: `Bearer ${admin.token}` }
    const { default: https } = await import('node:https')
    const ca = fs.readFileSync(certificate)
    const request = https.get(`${config.getCurrentCluster()!.server}/readyz`, { ca, headers })
    const [response] = await once(request, 'response')
    response.resume()
    return response.statusCode === 200
  }
  const configFor = (token: string): KubeConfig => {
    const config = new KubeConfig()
    const cluster = {
      name: 'trial',
      server: `https://127.0.0.1:${port}`,
      caData: fs.readFileSync(certificate).toString('base64'),
      skipTLSVerify: false,
    }
    config.loadFromClusterAndUser(cluster, { name: 'trial', token })
    return config
  }
  /** A file like kubectl's for one token. */
  const writeConfig = (name: string, token: string): string => {
    const { clusters, users, contexts, currentContext } = configFor(token)
    const file = path(`${name}.kubeconfig`)
    const [cluster, user, context] = [clusters[0]!, users[0]!, contexts[0]!]
    const content = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': currentContext,
      clusters: [
        { name: cluster.name, cluster: { server: cluster.server, 'certificate-authority-data': cluster.caData } },
      ],
      users: [{ name: user.name, user: { token } }],
      contexts: [{ name: context.name, context: { cluster: context.cluster, user: context.user } }],
    }
    fs.writeFileSync(file, dumpYaml(content), { mode: 0o600 })
    return file
  }

  try {
    const deadline = Date.now() + PATIENCE_MS
    while (!(await answer().catch(() => false))) {
      if (Date.now() > deadline) throw new Error(`The API server does not answer. See ${path('kube-apiserver.log')}.`)
      await delay(200)
    }
    run(
      'kube-controller-manager',
      `--kubeconfig=${writeConfig('controllers', controllers.token)}`,
      '--use-service-account-credentials',
      `--root-ca-file=${certificate}`,
      `--service-account-private-key-file=${path('accounts.key')}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${controllerPort}`,
      '--leader-elect=false',
      `--cert-dir=${path('controllers')}`,
    )
    run(
      'kube-scheduler',
      `--kubeconfig=${writeConfig('scheduler', scheduler.token)}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${schedulerPort}`,
      '--leader-elect=false',
      `--cert-dir=${path('scheduler')}`,
    )
    run(
      'kwok',
      `--kubeconfig=${writeConfig('admin', admin.token)}`,
      `--config=${stages}`,
      '--manage-nodes-with-label-selector=slipway-trial/node=kwok',
      '--node-ip=127.0.0.1',
      // Without leases the nodes, and with them the pods, are unready after 50 seconds.
      '--node-lease-duration-seconds=40',
      `--node-port=${kubeletPort}`,
      `--server-address=127.0.0.1:${kubeletPort}`,
    )
  } catch (error) {
    await stop()
    throw error
  }
  return { port: port!, folder, token: admin.token, config: configFor(admin.token), writeConfig, stop }
}
