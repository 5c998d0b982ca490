// Schemas of deploy hooks.
import * as z from 'zod'
import { RevisionStatus, SourceRevisionConfigInput } from '../../protocol/parts.schema.ts'
import { arrayOf, boundedText, CREDENTIAL, listOf, Page, Uuid } from '../../protocol/wire.ts'
import { DeploymentRef } from '../deployments/schema.ts'

const Time = z.string().meta({ format: 'date-time' })
const MAX_REFS = 20

const Refs = arrayOf(boundedText(255).min(1), MAX_REFS)

export const DeployHookRef = z.object({ ...DeploymentRef.shape, hook_id: Uuid })
export const DeployHookQuery = Page

export const NewDeployHook = z
  .object({
    name: boundedText(63).min(1).meta({ description: 'Unique in the deployment, such as the name of who calls it.' }),
    refs: Refs.nullish().meta({
      description:
        'Globs of the refs that a request may name, such as `release/*`. By default it deploys only the ref of the ' +
        'deployment.',
    }),
  })
  .meta({
    id: 'NewDeployHook',
    description: 'A secret URL that deploys.',
    example: { name: 'content', refs: ['release/*'] },
  })

export const DeployHook = z
  .object({
    id: Uuid,
    deployment_id: Uuid,
    name: z.string(),
    refs: z.array(z.string()),
    last_used_at: Time.nullable(),
    created_at: Time,
  })
  .meta({ id: 'DeployHook', description: 'A secret URL that deploys. The URL is shown once, when it is made.' })
export type DeployHook = z.output<typeof DeployHook>
export const DeployHookList = listOf(DeployHook).meta({
  id: 'DeployHookList',
  description: 'A page of deploy hooks, newest first.',
})

export const DeployHookWithUrl = DeployHook.extend({
  url: z.string().meta({ ...CREDENTIAL, description: 'Whoever knows it can deploy. It is not shown again.' }),
}).meta({ id: 'DeployHookWithUrl', description: 'A new deploy hook, with its URL.' })

export const DeployHookUse = z.object({ token: boundedText(100) })
export const DeployHookUseQuery = z.object({
  ref: SourceRevisionConfigInput.shape.repo_ref.meta({
    description: 'The ref to deploy, if the hook allows it. The deployment follows it from then on.',
  }),
})
export const HookedRevision = z
  .object({
    deployment_id: Uuid,
    revision_id: Uuid,
    number: z.int(),
    status: RevisionStatus,
  })
  .meta({ id: 'HookedRevision', description: 'The revision that a deploy hook made.' })
export type HookedRevision = z.output<typeof HookedRevision>
