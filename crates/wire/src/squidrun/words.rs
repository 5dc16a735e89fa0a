//! What became of a message, as its sender is told, and how a route is.

use crate::words::words;

words! {
    /// `status` of a `send-ack`. Of two that were reached, the one further up says more.
    pub enum Status {
        /// The recipient's own runtime confirmed it, or the recipient acknowledged it.
        DeliveredVerified = "delivered.verified",
        /// Typed into a terminal of the hub.
        DeliveredDaemonWrite = "delivered.daemon_write",
        /// The bot took it, for the person.
        TelegramDelivered = "telegram_delivered",
        /// Written to a connection of the recipient.
        DeliveredWebsocket = "delivered.websocket",
        RoutedUnverified = "routed_unverified",
        /// Durable; it came by a trigger file and nobody took it yet.
        FallbackTriggered = "fallback.triggered",
        /// Durable; nobody took it yet.
        AcceptedUnverified = "accepted.unverified",
        SubmitNotAccepted = "submit_not_accepted",
        DeliveryFailed = "delivery_failed",
        AgentNotRunning = "agent_not_running",
        TelegramContextStale = "telegram_context_stale",
        TelegramSendFailed = "telegram_send_failed",
        OwnerBindingViolation = "owner_binding_violation",
        InvalidTarget = "invalid_target",
        InvalidMessage = "invalid_message",
        InvalidAction = "invalid_action",
        NoTargets = "no_targets",
        HandlerError = "handler_error",
    }
}

impl Status {
    /// Whether the message is in the ledger and on its way; clients stop retrying there.
    pub const fn is_accepted(self) -> bool {
        match self {
            Self::DeliveredVerified
            | Self::DeliveredDaemonWrite
            | Self::DeliveredWebsocket
            | Self::TelegramDelivered
            | Self::RoutedUnverified
            | Self::FallbackTriggered
            | Self::AcceptedUnverified => true,
            Self::SubmitNotAccepted
            | Self::DeliveryFailed
            | Self::AgentNotRunning
            | Self::TelegramContextStale
            | Self::TelegramSendFailed
            | Self::OwnerBindingViolation
            | Self::InvalidTarget
            | Self::InvalidMessage
            | Self::InvalidAction
            | Self::NoTargets
            | Self::HandlerError => false,
        }
    }

    /// Whether somebody took it.
    pub fn is_verified(self) -> bool {
        self <= Self::DeliveredWebsocket
    }
}

words! {
    /// `status` of a `health-check-result`.
    pub enum HealthStatus {
        Healthy = "healthy",
        Stale = "stale",
        NoRoute = "no_route",
        InvalidTarget = "invalid_target",
    }
}

words! {
    /// `status` of a `delivery-check-result`.
    pub enum CheckStatus {
        Cached = "cached",
        Pending = "pending",
        Unknown = "unknown",
        InvalidMessageId = "invalid_message_id",
    }
}
