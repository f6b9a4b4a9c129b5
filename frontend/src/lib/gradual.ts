// What takes long to make for a large program, made in pieces while the browser has nothing else to do.

/** Items of a loop that are a piece: about a millisecond's work. */
export const PIECE = 500;
/** Where a browser has no idle time to tell of. */
const PAUSE_MS = 20;
const TURN_MS = 5;

/** A value made by a generator; whoever needs it before that has ended waits for the rest. */
export class Gradual<T> {
  private made: { readonly value: T } | null = null;

  constructor(private readonly pieces: Iterator<void, T>) {}

  get value(): T {
    while (!this.made) this.next();
    return this.made.value;
  }

  /** Makes it piece by piece. */
  *make(): Generator<void> {
    while (!this.made) yield this.next();
  }

  private next(): void {
    const { done, value } = this.pieces.next();
    if (done) this.made = { value };
  }
}

const waiting: Iterator<void>[] = [];

/** Goes through the pieces of a task when all earlier tasks are done and nothing else is to be done. */
export function whenIdle(task: Iterator<void>): void {
  if (waiting.push(task) === 1) schedule();
}

function schedule(): void {
  if ("requestIdleCallback" in globalThis) requestIdleCallback(run);
  else setTimeout(() => run(turnOf(TURN_MS)), PAUSE_MS);
}

function run(turn: Pick<IdleDeadline, "timeRemaining">): void {
  try {
    do {
      let isDone: boolean | undefined = true; // as one that throws is
      try {
        isDone = waiting[0]!.next().done;
      } finally {
        if (isDone) waiting.shift();
      }
    } while (waiting.length && turn.timeRemaining() > 1);
  } finally {
    if (waiting.length) schedule();
  }
}

function turnOf(limitMs: number): Pick<IdleDeadline, "timeRemaining"> {
  const end = performance.now() + limitMs;
  return { timeRemaining: () => end - performance.now() };
}
