// `slipway env list`: the names of the variables of a deployment.
import type { Declaration } from '../declaration.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '[deployment]', summary: 'list their names' }

export async function run(session: Session, _: object, [name]: [string?]): Promise<void> {
  const { secrets, secret_references } = await findDeployment(session, name)
  type Listed = { name: string; secret_name?: string; secret_key?: string }
  const listed: Listed[] = [...secrets.map(({ name }) => ({ name })), ...(secret_references ?? [])]
  const columns = {
    name: (one: Listed) => one.name,
    ...(secret_references?.length && {
      from: ({ secret_name, secret_key }: Listed) => secret_name && `cluster secret ${secret_name}, key ${secret_key}`,
    }),
  }
  session.out.table(listed, columns, 'No variables. Set one with: slipway env set NAME VARIABLE')
}
