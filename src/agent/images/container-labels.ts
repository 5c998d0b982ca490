// The labels and name prefix of everything that the agent creates in a container engine. Pure.
export type Labels = Record<string, string>

export const OWNER_LABEL = 'slipway.owner'
export const DEPLOYMENT_LABEL = 'slipway.deployment'
export const REVISION_LABEL = 'slipway.revision'
export const REPLICA_LABEL = 'slipway.copy'
export const ROLE_LABEL = 'slipway.role'
/** The name of an init container, sidecar or store; empty for the application's container. */
export const PART_LABEL = 'slipway.part'
/** The type of process of a replica, on its application's container. Absent on those of earlier agents. */
export const TYPE_LABEL = 'slipway.process'
/** The names of the sidecars, on the application's container. A replica without one of them is incomplete. */
export const SIDECARS_LABEL = 'slipway.parts'

export const deploymentLabels = (owner: string, deployment_id: string): Labels => ({
  [OWNER_LABEL]: owner,
  [DEPLOYMENT_LABEL]: deployment_id,
})

/** The name of a deployment's network, and the prefix of its volumes' names. */
export const resourcePrefix = (owner: string, deployment_id: string) => `slipway-${owner}-${deployment_id}`
