// What crosses the wire about listeners: registered data planes.
import * as z from 'zod'
import { arrayOf, boundedText, Instant, listOf, Uuid } from '../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })

export const ListenerRef = z.object({ listener_id: Uuid })

const Namespace = boundedText(63).regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, {
  error: 'needs to be 1 to 63 lower-case letters, digits or inner hyphens',
})
const ComputeType = z.enum(['k8s', 'local']).meta({ description: 'A cluster, or a machine.' })
const ComputeId = boundedText(253)
  .regex(/^[!-~]+$/, { error: 'needs 1 to 253 visible ASCII characters' })
  .meta({ description: 'The name of the cluster or the machine; one listener each in a workspace.' })
const ComputeConfig = z
  .object({
    k8s_namespaces: arrayOf(Namespace, 100)
      .default([])
      .meta({ description: 'Where in the cluster deployments may live. With any, a deployment has to name one.' }),
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
    description: 'A data plane to be registered.',
    example: { compute_type: 'k8s', compute_id: 'cluster-eu-1', compute_config: { k8s_namespaces: ['apps'] } },
  })
export type NewListener = z.output<typeof NewListener>

export const ListenerPatch = z.object({ compute_config: ComputeConfig.nullish() }).meta({
  id: 'ListenerPatch',
  description: 'What is left out or null stays as it is.',
  example: { compute_config: { k8s_namespaces: ['apps', 'previews'] } },
})
export type ListenerPatch = z.output<typeof ListenerPatch>

export const Listener = z
  .object({
    id: Uuid,
    compute_type: ComputeType,
    compute_id: z.string(),
    compute_config: z.object({ k8s_namespaces: z.array(z.string()) }),
    version: z.string().nullable().meta({ description: 'That of its agent, as it says itself; null before it came.' }),
    last_seen_at: Time.nullable().meta({ description: 'When its agent last asked for work.' }),
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
    expires_at: Instant.nullish().meta({ description: 'Never, unless said; not after the key that makes it.' }),
  })
  .meta({ id: 'NewListenerKey', description: 'A key for the agent.', example: { description: 'agent' } })
export type NewListenerKey = z.output<typeof NewListenerKey>
