"""Limits of refunds, by the role of the person who approves them."""

LIMITS = {"agent": 100, "team lead": 500, "manager": 2_000}  # dollars


def approver_for(amount: float) -> str:
    """Return the lowest role that may approve a refund of this amount.

    Refunds beyond every limit go to the finance team, whatever the reason.
    """
    for role, limit in LIMITS.items():
        if amount <= limit:
            return role
    return "finance"


def needs_second_approval(amount: float, reason: str) -> bool:
    """Return True if two people must approve: always for goodwill above 50 dollars."""
    return amount > LIMITS["agent"] or (reason == "goodwill" and amount > 50)
