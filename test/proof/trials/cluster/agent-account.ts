// The account of an agent, with the Role that the page on Kubernetes tells operators to make.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { loadAllYaml } from '@kubernetes/client-node'
import type { Kubernetes } from './kubernetes.ts'
import type { AnyObject, Objects } from './objects.ts'

const PAGE = join(import.meta.dirname, '../../../../docs/operate/kubernetes.md')

const readRole = (): AnyObject => {
  const blocks = [...fs.readFileSync(PAGE, 'utf8').matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, yaml]) => yaml!)
  return loadAllYaml(blocks.find(yaml => yaml.includes('kind: Role'))!)[0]
}

/** An account in the first namespace, with exactly that Role in each. Returns the Role of the first. */
export async function createAgentAccount(kubernetes: Kubernetes, cluster: Objects, namespaces: string[]) {
  const account = { name: 'slipway-agent', namespace: namespaces[0]! }
  const role = readRole()
  await cluster.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: account })
  for (const namespace of namespaces.toReversed()) {
    const metadata = { name: account.name, namespace }
    role.metadata = metadata
    await cluster.apply(role)
    await cluster.apply({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata,
      ...({
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: metadata.name },
        subjects: [{ kind: 'ServiceAccount', ...account }],
      } as object),
    })
  }
  const token = await cluster.createToken(account.namespace, account.name)
  return { role, config: kubernetes.writeConfig('agent', token) }
}
