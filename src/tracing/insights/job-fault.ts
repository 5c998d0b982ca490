// A fault that ends a job, in words for the person who reads it.

/** A repeat would fail in the same way. */
export class JobFault extends Error {}
