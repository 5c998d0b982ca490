// Schemas of listeners: registered data planes.
import * as z from 'zod'
import { arrayOf, boundedText, Instant, listOf, Uuid } from '../../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })

export const ListenerRef = z.object({ listener_id: Uuid })

const Namespace = boundedText(63).regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, {
  error: 'must be 1 to 63 lower-case letters, digits and hyphens, without a hyphen at either end',
})
const ComputeType = z.enum(['k8s', 'local']).meta({ description: 'A cluster, or a machine.' })
const ComputeId = boundedText(253)
  .regex(/^[!-~]+$/, { error: 'must be 1 to 253 visible ASCII characters' })
  .meta({ description: 'The name of the cluster or the machine. A workspace has one listener for each.' })
const ComputeConfig = z
  .object({
    k8s_namespaces: arrayOf(Namespace, 100)
      .default([])
      .meta({ description: 'The namespaces that deployments can use. If there are any, a deployment must name one.' }),
  })
  .meta({ id: 'ComputeConfig' })

export const NewListener = z
  .object({
    compute_type: ComputeType,
    compute_id: ComputeId,
    compute_config: ComputeConfig.nullish().transform(config => config ?? { k8s_namespaces: [] }),
  })
  .meta({
    id: 'NewListener',
    description: 'A data plane to register.',
    example: { compute_type: 'k8s', compute_id: 'cluster-eu-1', compute_config: { k8s_namespaces: ['apps'] } },
  })
export type NewListener = z.output<typeof NewListener>

export const ListenerPatch = z.object({ compute_config: ComputeConfig.nullish() }).meta({
  id: 'ListenerPatch',
  description: 'Members that are absent or null stay as they are.',
  example: { compute_config: { k8s_namespaces: ['apps', 'previews'] } },
})
export type ListenerPatch = z.output<typeof ListenerPatch>

export const Listener = z
  .object({
    id: Uuid,
    compute_type: ComputeType,
    compute_id: z.string(),
    compute_config: z.object({ k8s_namespaces: z.array(z.string()) }),
    version: z
      .string()
      .nullable()
      .meta({ description: 'The version that its agent reported; null before the first poll.' }),
    engine: z.string().nullable().meta({ description: 'The engine of its agent; null until the agent has told it.' }),
    capabilities: z
      .array(
        z.object({
          feature: z.string(),
          about: z.string().meta({ description: 'What of a deployment asks for it.' }),
          is_done: z.boolean().meta({ description: 'False: it is refused when it is planned.' }),
        }),
      )
      .nullable()
      .meta({
        description: 'What its engine does of what a deployment can ask for; null until the agent has told it.',
      }),
    last_seen_at: Time.nullable().meta({ description: 'When its agent last polled.' }),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'Listener', description: 'A registered data plane.' })
export type Listener = z.output<typeof Listener>
export const ListenerList = listOf(Listener).meta({
  id: 'ListenerList',
  description: 'A page of listeners, newest first.',
})

export const NewListenerKey = z
  .object({
    description: z.string().trim().min(1).max(256).nullish(),
    expires_at: Instant.nullish().meta({ description: 'Default: never. Not later than the key that creates it.' }),
  })
  .meta({ id: 'NewListenerKey', description: 'A key for the agent.', example: { description: 'agent' } })
export type NewListenerKey = z.output<typeof NewListenerKey>
