// The kinds and the states of previews.

/** The kinds of previews that a policy makes. Requests make further ones. */
export const followedKinds = ['pull_requests', 'branches'] as const
export const previewKinds = ['pull_request', 'branch', 'request'] as const
export const previewStates = ['pending', 'awaiting_approval', 'denied', 'full', 'failed', 'live', 'ended'] as const
